// Package bench is the command "bench". It measures what requests cost an API server in CPU, memory
// and time, and compares that with the least possible cost.
//
// NewCommand joins the subcommands, each of which is a package:
//
//	list       LIST and GET requests, and the memory of concurrent LISTs
//	watch      events to many watchers, and the memory of watch-list informers
//	crd        custom resource definitions and custom objects
//	discovery  discovery and OpenAPI with many definitions
//	replica    a fleet of informers at a server, and at a replica
//	tree       the same fleet at replicas of replicas
//	quiet      reads of resources that nobody writes, through replicas
//	servers    large LISTs at several servers over one etcd, and at replicas
//	storm      all clients at once at a server that was just started
//	provision  pods from creation to running, with scheduler, controllers and hollow nodes
//
// They use four packages that are independent of what is measured:
//
//	bench ─► list, watch, crd, discovery (which uses crd's servers), replica
//	             │
//	             ├─► load       the same request from several clients at once
//	             ├─► floor      Go's HTTP server sending the same bytes from memory
//	             ├─► testbed    processes, connections, writes, CPU and memory
//	             └─► render     tables, plots, percentiles, JSON
//
// With --compare a subcommand runs both read paths of millrace, one after the other, over the
// same data, and then the floor. CPU and memory come from /proc by process id, in
// the same way for every server. Their ratios therefore depend on the machine much
// less than the numbers themselves.
//
// With --at a subcommand measures a server that exists. The server's CPU and memory then come from
// its metrics, and the subcommand removes at the end the data that it has filled in.
//
// The client shares the machine's cores with the servers. CPU per request is
// therefore the number to compare. Throughput and latency describe the pair of
// client and server.
//
// Package papers runs subcommands with the numbers of published experiments, and reads what "-o json"
// prints. A JSON name that changes here must change in papers, too, and in saved reports.
//
// The package does not check correctness: it validates one response of a workload, and only the sizes
// of the others. It must not be run against production clusters.
package bench
