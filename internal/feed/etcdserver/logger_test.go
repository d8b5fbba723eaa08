package etcdserver

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestLoggerEndsProcess checks that a panic of etcd becomes a sentence and an
// exit code, and a warning becomes neither.
func TestLoggerEndsProcess(t *testing.T) {
	var out bytes.Buffer
	exited := -1
	core := NewLogger("/data/etcd", slog.New(slog.DiscardHandler))
	core.out, core.exit = &out, func(code int) { exited = code }
	logger := zap.New(core)
	logger.Warn("slow")
	if exited != -1 || out.Len() != 0 {
		t.Fatalf("a warning wrote %q and exited with %d", &out, exited)
	}
	func() {
		defer func() { _ = recover() }()
		logger.Panic("failed to commit", zap.Error(errors.New("no space left")))
	}()
	if text := out.String(); exited != 1 || !strings.HasPrefix(text, "millrace: ") || strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "failed to commit: no space left") || !strings.Contains(text, "/data/etcd") {
		t.Errorf("exit code %d, printed %q", exited, text)
	}
}
