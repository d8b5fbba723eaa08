// Package memory divides the memory of the process, tunes the garbage collector, and gives
// memory back that nobody needs.
//
// The caller divides what is Available into Shares once, before it builds anything, and gives
// each component its share. It calls SetLoadingGCPercent before objects are loaded. Afterwards
// it makes a Trimmer and runs it. docs/design/memory.md has the reasons.
//
// The package knows no component: what can be released comes as functions.
package memory
