// Package price estimates the CPU time that an API server spends on reads, from the number of
// requests, watches, objects, events and bytes. Prices are in µs, and prices of bytes in ns. One
// list has the prices of the stock server (Kubernetes' own read path) and of Millrace, measured on
// the same machine.
//
// Default returns the list in the binary, prices.json, which Derive has made from the reports
// that the list names. After new measurements, write the list again, from the root of the tree:
//
//	millrace-tools analyze prices docs/bench/list.json --etcd=docs/bench/list-without-cache.json \
//	    --watch=docs/bench/watch-1.37.json --paced=docs/bench/list-paced.json > internal/tool/price/prices.json
//
// Machines differ by a factor of two: "millrace-lab bench" measures another machine, and Derive
// makes a price list of the reports.
//
// The model is a sum. Reads pay for each request, each object looked at, each byte encoded, and
// each object and byte read from etcd. Watches pay for each watch, event and initial byte. The
// caller says how much work a request is: the package does not know the cluster.
package price
