// Package program is what `millrace serve` and `millrace replica` have in common as
// processes. It has flags about caches, watches and accounts, and advice in errors. It
// decides the order in which feeds, caches and Kubernetes' server start and stop.
//
// RunWithFeeds starts from top to bottom and stops from bottom to top:
//
//	feeds, caches      loaded before requests; then Loaded is called
//	checkpoints        if any are kept
//	checks of caches, accounts of watches
//	trimmer            gives memory back
//	encoding ahead     once the server is ready
//	Beside             what one of the programs has, and the other has not
//	Kubernetes' server with the read tier in it
package program
