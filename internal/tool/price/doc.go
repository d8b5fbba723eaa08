// Package price has the price list: the CPU that a read costs an API server, by the work for it.
// One list has the prices of the stock server (Kubernetes' own read path) and of Millrace, measured
// on the same machine.
//
// Default returns the list in the binary, prices.json, which Derive has made from the reports
// that the list names. After new measurements, write the file again if its figures have changed:
//
//	millrace-tools analyze prices docs/bench/list.json --etcd=docs/bench/list-without-cache.json \
//	    --watch=docs/bench/watch-1.37.json --paced=docs/bench/list-paced.json > prices.json
//
// Machines differ by a factor of two: "millrace-lab bench" measures another machine, and Derive
// makes a price list of the reports.
//
// The model is a sum: a price for each request, each object looked at, each byte encoded, and each
// object and byte read from etcd. The caller says how much work a request is: the package does not
// know the cluster.
package price
