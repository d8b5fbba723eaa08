//go:build invariants

package watch

// invariantsEnabled says that every dispatch is followed by a check of the hub's
// subscriptions.
const invariantsEnabled = true
