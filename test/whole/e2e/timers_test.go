package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// TestTimerSlack checks the slack of a server's timers, as the kernel has it.
func TestTimerSlack(t *testing.T) {
	t.Parallel()
	untouched, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil {
		t.Skipf("this system does not report the slack: %v", err)
	}
	for args, want := range map[string]string{
		"":                       "2000000",
		"--timer-slack=1ms":      "1000000",
		"--timer-slack=0":        strings.TrimSpace(string(untouched)),
		"--read-path=kubernetes": strings.TrimSpace(string(untouched)),
	} {
		s := harness.Launch(t, harness.ShortTempDir(t), append(strings.Fields(args), "--etcd-servers=http://127.0.0.1:1")...)
		eventually(t, func(context.Context) error { // the program has executed itself anew by then
			_, err := os.Stat(s.Kubeconfig())
			return err
		})
		got, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", s.PID()))
		if errors.Is(err, os.ErrPermission) {
			t.Skipf("only administrators may read the slack: %v", err)
		}
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("serve %s: timers have a slack of %s ns, not %s: %v", args, strings.TrimSpace(string(got)), want, err)
		}
		s.Kill()
	}
}
