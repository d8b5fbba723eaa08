package harness

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedVariable is the environment variable that seeds the random parts of a run. Its
// value is a number, to repeat a run, or "new".
const SeedVariable = "MILLRACE_SEED"

// Seed returns the seed of a run. Without SeedVariable it is always the same, so that
// only the code decides whether tests pass.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	value := os.Getenv(SeedVariable)
	switch value {
	case "":
		return 1
	case "new":
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", SeedVariable, err)
	}
	return n
}
