package read

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/wire/encode"
)

const (
	// failurePeriod is the least time between two lines about the same form of a
	// resource. A client that retries meets the same failure with each request.
	failurePeriod = time.Minute
	// maxFailureSources bounds the forms whose times are remembered. Custom resources
	// come and go, so the number of forms that a process ever has is unbounded.
	maxFailureSources = 256
)

// failureSource is a form of a resource. The zero value stands for all sources that
// there is no room to remember.
type failureSource struct{ resource, form string }

// failureLine is the newest line about a source.
type failureLine struct {
	at time.Time
	// suppressed counts the failures after at that were not logged.
	suppressed int
}

// failureLog logs encoders that fail, at most one line per source and failurePeriod.
// An encoder fails if it returns an error or panics, or if its output does not have the shape
// that the form expects. The check of the shape guards byte equality, so a failure must not
// pass unseen. Metrics count each failure besides.
//
// The log remembers maxFailureSources sources at most. All others share one line per
// failurePeriod. The lock is a leaf: nothing is called while it is held.
type failureLog struct {
	logger *slog.Logger
	clock  clock.PassiveClock

	mu struct {
		sync.Mutex
		lines map[failureSource]*failureLine
	}
}

// report logs a failure unless a line about its source was logged in the last
// failurePeriod. message says what became of the request.
func (l *failureLog) report(message string, source failureSource, err error) {
	suppressed, ok := l.admit(source)
	if !ok {
		return
	}
	l.logger.Error(message, "resource", source.resource, "form", source.form, "object", entryKey(err), "suppressed", suppressed, "err", err)
}

// admit reports whether a source may log now. suppressed is how many of its failures
// were not logged since its last line.
func (l *failureLog) admit(source failureSource) (suppressed int, ok bool) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.mu.lines[source]
	if line == nil && len(l.mu.lines) >= maxFailureSources {
		l.forgetOldLocked(now)
		if len(l.mu.lines) >= maxFailureSources {
			source = failureSource{}
			line = l.mu.lines[source]
		}
	}
	switch {
	case line == nil:
		if l.mu.lines == nil {
			l.mu.lines = map[failureSource]*failureLine{}
		}
		l.mu.lines[source] = &failureLine{at: now}
		return 0, true
	case now.Sub(line.at) < failurePeriod:
		line.suppressed++
		return 0, false
	}
	suppressed = line.suppressed
	*line = failureLine{at: now}
	return suppressed, true
}

// forgetOldLocked drops the sources that may log again. Their suppressed failures are
// never logged; the metrics have counted them.
func (l *failureLog) forgetOldLocked(now time.Time) {
	for source, line := range l.mu.lines {
		if now.Sub(line.at) >= failurePeriod {
			delete(l.mu.lines, source)
		}
	}
}

// entryKey returns the key of the object that could not be encoded. It returns "" if the
// failure is not about one object.
func entryKey(err error) string {
	var entry *encode.EntryError
	if errors.As(err, &entry) {
		return entry.Key
	}
	return ""
}

// failureSource names the form that answers the request.
func (q *query) failureSource() failureSource {
	s := failureSource{resource: q.route.name}
	if q.form != nil {
		s.form = q.form.Name()
	}
	return s
}

// passOnEncoding reports a failure of an encoder, and returns the reason to pass the request
// on. Nothing of the answer has been sent.
func (q *query) passOnEncoding(err error) passReason {
	return q.passOnForm(q.failureSource().form, err)
}

// passOnForm is passOnEncoding for a request whose form could not be made.
func (q *query) passOnForm(form string, err error) passReason {
	q.tier.failures.report("An encoder failed, so Kubernetes' handler answers the request", failureSource{q.route.name, form}, err)
	return passedEncoding
}

// abortEncoding reports a failure of an encoder after the first byte of an answer. The
// caller cuts the answer short.
func (q *query) abortEncoding(err error) {
	q.metrics.aborted.WithLabelValues(q.verb()).Inc()
	q.tier.failures.report("An encoder failed, so an answer that had begun was cut short", q.failureSource(), err)
}

// encodingError marks an error of an encoder among the errors that end a watch. Its text
// is err's, because clients are sent it.
type encodingError struct{ err error }

func (e *encodingError) Error() string { return e.err.Error() }
func (e *encodingError) Unwrap() error { return e.err }

// encodingFailed marks what writing to a stream returned, unless the client went away.
func (s *watchSession) encodingFailed(err error) error {
	if err == nil || s.broken {
		return err
	}
	return &encodingError{err}
}
