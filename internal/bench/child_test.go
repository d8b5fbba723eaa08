package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestChildIsReaped(t *testing.T) {
	c, err := startChild(childConfig{path: "/bin/sh", args: []string{"-c", "sleep 100"}, log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(c.pid()); err != nil || group != c.pid() {
		t.Errorf("group %d of process %d, %v", group, c.pid(), err)
	}
	for range 2 { // the second call finds nothing to do
		if !c.stop(t.Context()) {
			t.Error("killed by force")
		}
	}
	if err := syscall.Kill(c.pid(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("still there: %v", err)
	}
}

func TestChildThatCannotStart(t *testing.T) {
	if _, err := startChild(childConfig{path: "/nowhere", log: filepath.Join(t.TempDir(), "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestChildTail(t *testing.T) {
	c := &child{cfg: childConfig{log: filepath.Join(t.TempDir(), "log")}}
	if err := os.WriteFile(c.cfg.log, []byte(strings.Repeat("old\n", 99)+"last\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tail := c.tail()
	if strings.Count(tail, "old") != tailLines-1 || !strings.HasSuffix(tail, "last") {
		t.Errorf("got %q", tail)
	}
}

func TestSleepEndsWithContext(t *testing.T) {
	ctx, stop := interruptible(t.Context())
	stop()
	if err := sleep(ctx, time.Hour); err == nil {
		t.Error("no error")
	}
}
