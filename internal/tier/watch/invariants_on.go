//go:build invariants

package watch

// invariantsEnabled has every dispatch followed by a check of the hub's subscriptions.
const invariantsEnabled = true
