package etcdserver

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"

	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// processLogger is the zapcore.Core that the embedded etcd logs to. It passes messages on to
// the server's logger. When etcd cannot go on, it prints a sentence for people and ends the
// process: etcd would end the process with a stack. The zero value is not usable.
type processLogger struct {
	zapcore.LevelEnabler
	dataDir string
	logger  *slog.Logger
	// out receives the sentence. exit does not return, except in tests.
	out  io.Writer
	exit func(code int)
	// fields are added to all messages.
	fields []zapcore.Field
}

// NewLogger makes a Config.Logger. It prints what a person is to do, and ends the process,
// when etcd cannot go on.
func NewLogger(dataDir string, logger *slog.Logger) *processLogger {
	return &processLogger{LevelEnabler: zapcore.WarnLevel, dataDir: dataDir, logger: logger, out: os.Stderr, exit: os.Exit}
}

// With implements zapcore.Core.
func (l *processLogger) With(fields []zapcore.Field) zapcore.Core {
	extended := *l
	extended.fields = slices.Concat(l.fields, fields)
	return &extended
}

// Check implements zapcore.Core.
func (l *processLogger) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) && !isNoise(e) {
		return checked.AddCore(e, l)
	}
	return checked
}

// isNoise reports whether etcd logs a message for every embedded server.
func isNoise(e zapcore.Entry) bool {
	switch e.Message {
	case "simple token is not cryptographically signed": // etcd's own users, of which there are none
		return true
	case "setting up serving from embedded etcd failed.": // a listener that was closed
		return true
	}
	return false
}

// Write implements zapcore.Core. After a message at the level of a panic or above
// etcd ends the process, so Write ends it first, with advice.
func (l *processLogger) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(l.fields, fields) {
		f.AddTo(encoder)
	}
	var pairs []any
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		pairs = append(pairs, key, encoder.Fields[key])
	}
	message := "etcd: " + e.Message
	switch {
	case e.Level >= zapcore.DPanicLevel:
		l.logger.Error(message, append(pairs, "stack", string(debug.Stack()))...)
		klog.Flush()
		reason := e.Message
		if cause, ok := encoder.Fields["error"]; ok {
			reason = fmt.Sprintf("%s: %v", reason, cause)
		}
		fmt.Fprintf(l.out, "millrace: the embedded etcd cannot go on (%s): check the disk of %s, then %s\n", reason, l.dataDir, remedy(l.dataDir))
		l.exit(1)
	case e.Level >= zapcore.ErrorLevel:
		l.logger.Error(message, pairs...)
	default:
		l.logger.Info(message, pairs...)
	}
	return nil
}

// Sync implements zapcore.Core.
func (l *processLogger) Sync() error {
	klog.Flush()
	return nil
}
