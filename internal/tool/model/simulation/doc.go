// Package simulation is a discrete event simulator of a tree: a root that takes writes,
// replicas at each depth, and watchers at the deepest one. It tells what each tier needs of
// its processors, and when events come to watchers.
//
// A processor is shared by all jobs on its machine, as a kernel and Go's scheduler share it.
// Watchers are no objects: one job sends an event to all watchers of a process, and each is
// served when its share of the job is done. So a million watchers cost what one costs. Of a
// tier with many processes, which are all alike, some are simulated and stand for the others.
//
// All randomness comes from Config.Seed: the same Config has the same Result.
//
// The package knows no prices: the caller says what each step costs. It does not simulate
// memory, garbage collection, lost connections or clients that are slow.
package simulation
