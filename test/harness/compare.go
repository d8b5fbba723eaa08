package harness

import (
	"errors"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// SeedVariable is the environment variable that says what is random in a run: a
// number, to repeat one, or "new".
const SeedVariable = "MILLRACE_SEED"

// Seed is the same for each run, so that whether tests pass depends on the code
// alone, unless SeedVariable says otherwise.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	given := os.Getenv(SeedVariable)
	switch given {
	case "":
		return 1
	case "new":
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		tb.Fatalf("%s: %v", SeedVariable, err)
	}
	return n
}

// ErrNotYet is what Until's condition may return when there is no more to say.
var ErrNotYet = errors.New("not yet")

// Until asks first after pollInterval again, then ever more rarely.
const (
	pollInterval     = 20 * time.Millisecond
	longPollInterval = 500 * time.Millisecond
)

// Until waits for a condition that servers reach each in its own time. It
// returns the condition's last error if that takes longer than timeout.
func Until(timeout time.Duration, condition func() error) error {
	deadline := time.Now().Add(timeout)
	for interval := pollInterval; ; interval = min(interval*5/4, longPollInterval) {
		err := condition()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(interval)
	}
}

// QuotedManagedFields are the managed fields of an object that a message quotes, between
// $1 and $2: a name follows, or the end of metadata. Their order depends on whether a
// second passed between two writes.
var QuotedManagedFields = regexp.MustCompile(`(\\*"managedFields\\*":)\[.*?\](,\\*"name\\*":|},\\*"spec\\*":)`)

// IsVolatileHeader reports whether a response header differs between any two
// answers.
func IsVolatileHeader(name string) bool {
	switch name {
	case "Audit-Id", "Date", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid":
		return true
	}
	return false
}

// FirstDifference is where two texts begin to differ: the length of what they
// have in common.
func FirstDifference[T ~string | ~[]byte](a, b T) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
