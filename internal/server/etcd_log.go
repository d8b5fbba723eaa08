package server

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// etcdLog sends the embedded etcd's messages where Kubernetes' go, in their
// format, and ends the process with a sentence for people when etcd cannot go
// on. The zero value is not usable.
type etcdLog struct {
	zapcore.LevelEnabler
	dataDir string
	out     io.Writer
	exit    func(code int)
	// with are the fields of all messages.
	with []zapcore.Field
}

func newEtcdLog(dataDir string) *etcdLog {
	return &etcdLog{LevelEnabler: zapcore.WarnLevel, dataDir: dataDir, out: os.Stderr, exit: os.Exit}
}

// With implements zapcore.Core.
func (l *etcdLog) With(fields []zapcore.Field) zapcore.Core {
	more := *l
	more.with = slices.Concat(l.with, fields)
	return &more
}

// Check implements zapcore.Core.
func (l *etcdLog) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) && !isNoise(e) {
		return checked.AddCore(e, l)
	}
	return checked
}

// isNoise tells what etcd says about every server of this kind.
func isNoise(e zapcore.Entry) bool {
	switch e.Message {
	case "simple token is not cryptographically signed": // etcd's users, of which there are none
		return true
	case "setting up serving from embedded etcd failed.": // a listener that was closed
		return true
	}
	return false
}

// Write implements zapcore.Core. What etcd logs as fatal or as a panic it
// follows with the process's end; that is put into words here.
func (l *etcdLog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(l.with, fields) {
		f.AddTo(encoder)
	}
	var pairs []any
	for _, key := range sortedKeys(encoder.Fields) {
		pairs = append(pairs, key, encoder.Fields[key])
	}
	message := "etcd: " + e.Message
	switch {
	case e.Level >= zapcore.DPanicLevel:
		klog.ErrorS(nil, message, append(pairs, "stack", string(debug.Stack()))...)
		klog.Flush()
		reason := e.Message
		if cause, ok := encoder.Fields["error"]; ok {
			reason = fmt.Sprintf("%s: %v", reason, cause)
		}
		fmt.Fprintf(l.out, "millrace: the embedded etcd cannot go on (%s): check the disk of %s, then %s\n", reason, l.dataDir, remedyEtcd(l.dataDir))
		l.exit(1)
	case e.Level >= zapcore.ErrorLevel:
		klog.ErrorS(nil, message, pairs...)
	default:
		klog.InfoS(message, pairs...)
	}
	return nil
}

// Sync implements zapcore.Core.
func (l *etcdLog) Sync() error {
	klog.Flush()
	return nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
