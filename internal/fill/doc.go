// Package fill writes synthetic clusters: nodes, namespaces, service accounts,
// config maps, secrets, pods, custom resource definitions and custom objects of
// a chosen number and size, all derived from one seed. It serves benchmarks and tests that need many realistic objects in
// little time.
//
// There are two ways in. Through the API of any Kubernetes server the objects
// pass admission and validation and get their identity from the server. Straight
// into etcd they are written as the server itself would have stored them, in
// batched transactions, which is faster by one to two orders of magnitude.
// Definitions and custom objects go through the API only.
//
// Every object carries the label LabelSeed with the seed that made it; a run
// with Config.Delete removes the objects with that label and no others.
//
// A caller that only wants objects uses Generator and EncodeStored. A caller
// that wants a filled cluster builds a Filler with New and calls Run once.
//
// The package is not a load generator: it does not pace its writes, and nothing
// changes after it was written. It must not be pointed at a cluster whose etcd
// holds data that matters and has no room to spare.
package fill
