package read

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestFailureLogIsBounded reports failures of more forms than the log remembers.
func TestFailureLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	log := failureLog{logger: slog.New(slog.NewTextHandler(&out, nil)), clock: clock}
	report := func(i int) {
		log.report("failed", failureSource{resource: fmt.Sprint("resource-", i), form: "v1 json"}, errors.New("shape"))
	}
	for range 2 {
		for i := range 2 * maxFailureSources {
			report(i)
		}
	}
	// All sources that there is no room for have one line together.
	if n, most := strings.Count(out.String(), "\n"), maxFailureSources+1; n != most || len(log.mu.lines) != most {
		t.Errorf("logged %d lines and remembers %d sources, want %d", n, len(log.mu.lines), most)
	}
	clock.SetTime(clock.Now().Add(failurePeriod))
	out.Reset()
	report(maxFailureSources + 1)
	if n := len(log.mu.lines); n != 1 || !strings.Contains(out.String(), fmt.Sprint("resource-", maxFailureSources+1)) {
		t.Errorf("remembers %d sources after a minute and logged %q, want one of both", n, out.String())
	}
}
