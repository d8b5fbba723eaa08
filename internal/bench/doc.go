// Package bench measures API servers: what a LIST, a GET or the events of a
// WATCH cost in server CPU, memory and time, and how far that is from what
// sending the same bytes costs at least.
//
// The caller adds NewCommand's result to a command tree. "bench list" measures
// whatever server a kubeconfig points to, or with --compare runs both read
// paths of this binary in turn over one data directory or one etcd, and then a floor
// server: Go's own HTTP server writing the captured response bodies from
// memory. "bench watch" does the same for many watchers, to which writes of its
// own make events; writer and watchers share a process and so a clock. "bench
// crd" and "bench discovery" run servers over empty data, install custom resource
// definitions with package fill and measure what those cost. CPU and memory of a
// server come from /proc by process id and are measured in the same way for all of
// them, so the ratios between them do not depend on the machine as much as the
// numbers themselves do.
//
// The client runs on the same machine as the servers and competes with them
// for cores. CPU per request is therefore the number to compare; throughput
// and latency say how the pair of client and server did together.
//
// The package is not for checking correctness (it validates one response of a
// workload and sizes of the others), nor for loading production clusters.
package bench
