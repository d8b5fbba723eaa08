//go:build !invariants

package watch

// invariantsEnabled is set by the build tag invariants. Without it the compiler removes
// the checks.
const invariantsEnabled = false
