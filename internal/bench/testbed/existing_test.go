package testbed

import (
	"io"
	"strings"
	"testing"
)

// TestObjectsLeft has a "fill" that fails: the error names the command that removes the objects.
func TestObjectsLeft(t *testing.T) {
	options := Options{At: "prod.kubeconfig", atContext: "east"}
	bed, closeBed, err := Open(t.Context(), Program{Executable: "/bin/false"}, Config{Options: options, Progress: NewProgress(io.Discard)})
	if err != nil {
		t.Fatal(err)
	}
	bed.Filled()
	const command = "millrace papers a --delete --kubeconfig=prod.kubeconfig --context=east"
	if err := closeBed(); err == nil || !strings.Contains(err.Error(), command) {
		t.Errorf("got %v, want the command %q", err, command)
	}
	if err := closeBed(); err != nil {
		t.Errorf("removed a second time: %v", err)
	}
}
