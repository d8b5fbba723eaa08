//go:build invariants

package cache

// invariantsEnabled says that every batch is followed by a check of the structures
// that it changed. A check visits all entries and events of the resource.
const invariantsEnabled = true
