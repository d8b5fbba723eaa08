//go:build !invariants

package cache

// invariantsEnabled is set by the build tag invariants. Without it the compiler removes
// the checks.
const invariantsEnabled = false
