package testbed

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tool/interrupt"
)

func TestChildIsReaped(t *testing.T) {
	c, err := StartChild(ChildConfig{Path: "/bin/sh", Args: []string{"-c", "sleep 100"}, LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(c.PID()); err != nil || group != c.PID() {
		t.Errorf("group %d of process %d, %v", group, c.PID(), err)
	}
	for range 2 { // the second call does nothing
		if !c.Stop(t.Context()) {
			t.Error("killed by force")
		}
	}
	if err := syscall.Kill(c.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("still there: %v", err)
	}
}

func TestChildThatCannotStart(t *testing.T) {
	if _, err := StartChild(ChildConfig{Path: "/nowhere", LogFile: filepath.Join(t.TempDir(), "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestChildLogTail(t *testing.T) {
	c := &Child{cfg: ChildConfig{LogFile: filepath.Join(t.TempDir(), "log")}}
	if err := os.WriteFile(c.cfg.LogFile, []byte(strings.Repeat("old\n", 99)+"last\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tail := c.logTail()
	if strings.Count(tail, "old") != tailLines-1 || !strings.HasSuffix(tail, "last") {
		t.Errorf("got %q", tail)
	}
}

func TestSleepEndsWithContext(t *testing.T) {
	ctx, stop := interrupt.Context(t.Context())
	stop()
	if err := Sleep(ctx, time.Hour); err == nil {
		t.Error("no error")
	}
}
