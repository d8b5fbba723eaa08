// Package simulation is a discrete event simulation of a tree: a root that takes writes, replicas
// at each depth, and watchers at the last tier. Run computes the CPU that each tier needs, and the
// latencies of events to watchers. RunStorm computes how long a simultaneous start of watchers takes.
//
// Jobs on a machine share its processors (processor sharing), as under a kernel and Go's scheduler.
// Watchers are not simulated one by one. One job sends an event to all watchers of a process.
// Each watcher is served when its fraction of the job is done, so a million watchers cost no more
// than one. The processes of a tier are all alike. Of a large tier only some are simulated, and
// stand for the rest.
//
// All randomness comes from Config.Seed: the same Config gives the same Result.
//
// The package knows no prices: the caller says what each step costs, in seconds of CPU. The
// simulation does not model memory, garbage collection, lost connections or slow clients.
package simulation
