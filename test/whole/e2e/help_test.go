package e2e

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// TestHelp checks that every command has help, which mentions --data-dir where it counts.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"", "serve", "kubectl", "controller-manager", "scheduler", "fill", "bench", "bench list", "bench crd", "bench discovery", "bench replica", "version"} {
		output, code := harness.Run(t, append(strings.Fields(command), "--help")...)
		if code != 0 || !strings.Contains(output, "Usage:") {
			t.Errorf("millrace %s --help: code %d, or no usage:\n%s", command, code, output)
		}
		switch command {
		case "", "bench", "bench list", "bench crd", "bench discovery", "bench replica", "version":
		default:
			if !strings.Contains(output, "--data-dir") {
				t.Errorf("millrace %s --help does not mention --data-dir", command)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	output, code := harness.Run(t, "version")
	if code != 0 || !strings.Contains(output, "Millrace   test\n") || !strings.Contains(output, "Kubernetes v") {
		t.Errorf("millrace version: code %d, output:\n%s", code, output)
	}
}
