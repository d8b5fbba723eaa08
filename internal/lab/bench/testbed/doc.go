// Package testbed runs the servers that the subcommands of "bench" measure. It also has what
// every measurement needs: connections, writes at a rate, readings of CPU and memory, progress
// for the user.
//
// Open returns a Testbed: a directory with the servers' data, and perhaps an etcd. Start runs
// servers as child processes, one after another over that data, on a port that stays the same.
// StartAnother and StartReplica start more beside them, on other ports. The caller must end every
// server, and then call the function that Open returns. WithTestbed calls it for its caller.
//
//	Testbed ── Start ──► Server = Child (process) + Target (address, credentials)
//	   │                              │                   │
//	   └ etcd (Child, if external)    Meter (/proc)       Conn, Writer
//
// With --at the server exists: Start only connects to it, and Meter reads its metrics.
//
// Meters and the rule that children die with their parent need Linux. The package
// knows neither workloads nor reports.
package testbed
