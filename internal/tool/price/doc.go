// Package price has the price list: what a read costs an API server in CPU, by what the
// server has to do for it. One list has prices of the stock server and of Millrace,
// measured on the same machine.
//
// Default returns the list in the binary, prices.json. Derive has made it of the reports that
// it names. After new measurements, write it anew where its figures have changed:
//
//	millrace-tools analyze prices docs/bench/list.json --etcd=docs/bench/list-without-cache.json \
//	    --watch=docs/bench/watch-1.37.json --paced=docs/bench/list-paced.json > prices.json
//
// Machines differ by a factor of two: "millrace-lab bench" measures another one, and Derive
// makes its list of these reports.
//
// The model is a sum: a price for each request, for each object looked at, for each byte
// encoded, and for each object and byte read from etcd. The package is not for what a
// request has to process, which the caller knows.
package price
