// Package simulation is a discrete event simulator of a tree: a root that takes writes,
// replicas at each depth, and watchers at the deepest one. It computes the CPU that each tier
// needs, and the times at which events come to watchers.
//
// A processor is shared by all jobs on its machine, as a kernel and Go's scheduler share it.
// Watchers are no objects of the simulation. One job sends an event to all watchers of a process.
// Each watcher is served when its share of the job is done, so a million watchers cost no more
// than one. Of a tier with many processes, which are all alike, some are simulated and stand for
// the others.
//
// All randomness comes from Config.Seed: the same Config has the same Result.
//
// The package knows no prices: the caller says what each step costs. The simulation has no memory,
// no garbage collection, no lost connections and no slow clients.
package simulation
