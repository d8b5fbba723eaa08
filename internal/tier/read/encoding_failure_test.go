package read_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/tier/read"
)

// misshapenSerializer is a serializer. Once broken is set, its encoders write a space ahead
// of each object.
type misshapenSerializer struct {
	runtime.NegotiatedSerializer
	broken atomic.Bool
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (s *misshapenSerializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return &misshapenEncoder{Encoder: s.NegotiatedSerializer.EncoderForVersion(e, gv), serializer: s}
}

type misshapenEncoder struct {
	runtime.Encoder
	serializer *misshapenSerializer
}

// Encode implements runtime.Encoder.
func (e *misshapenEncoder) Encode(obj runtime.Object, w io.Writer) error {
	if list, ok := obj.(*corev1.ConfigMapList); ok && len(list.Items) > 0 && e.serializer.broken.Load() {
		if _, err := w.Write([]byte(" ")); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return e.Encoder.Encode(obj, w)
}

// newMisshapenTier makes a tier, and breaks its encoders after the forms were made.
func newMisshapenTier(t *testing.T, keys ...string) *testTier {
	t.Helper()
	s := &misshapenSerializer{}
	env := newTestTier(t, func(c *read.RouteConfig) {
		s.NegotiatedSerializer = c.Serializer
		c.Serializer = s
	})
	env.load(t, keys...)
	s.broken.Store(true)
	return env
}

// lines returns the lines that the tier has logged since the last call.
func (env *testTier) lines() []string {
	text := env.logged.String()
	env.logged.Reset()
	return slices.Collect(strings.Lines(text))
}

func wantLine(t *testing.T, lines []string, parts ...string) {
	t.Helper()
	if len(lines) != 1 {
		t.Errorf("logged %d lines, want one: %q", len(lines), lines)
		return
	}
	for _, part := range parts {
		if !strings.Contains(lines[0], part) {
			t.Errorf("logged %q, want %q in it", lines[0], part)
		}
	}
}

// TestUnexpectedShapeIsLogged lists objects while the encoder writes another shape than the
// form expects. Each request is passed on and counted. The first request in a minute is
// logged, with the number of requests since the last line that were not.
func TestUnexpectedShapeIsLogged(t *testing.T) {
	env := newMisshapenTier(t, "one/a", "one/b")
	send := func(target string) {
		t.Helper()
		if w := env.send(t, http.MethodGet, target, nil); w.Code != passedOnStatus {
			t.Errorf("%s: status %d, want it passed on", target, w.Code)
		}
	}
	send(listPath)
	wantLine(t, env.lines(), "level=ERROR", "answers the request", "resource=configmaps", `form="v1 json"`, "object=one/a", "suppressed=0", "unexpected shape of an encoded list")
	send(listPath)
	send("/api/v1/namespaces/one/configmaps/b")
	if lines := env.lines(); len(lines) != 0 {
		t.Errorf("logged within the minute: %q", lines)
	}
	if n := env.reasons(t)["encoding"]; n != 3 {
		t.Errorf("%v requests counted, want 3", n)
	}
	env.clock.SetTime(env.clock.Now().Add(time.Minute))
	send("/api/v1/namespaces/one/configmaps/b")
	wantLine(t, env.lines(), "object=one/b", "suppressed=2")
	send(listPath + "?pretty=1")
	wantLine(t, env.lines(), `form="v1 json pretty"`, "suppressed=0")
}

// TestAbortedAnswerIsLogged lists many objects. One of the last cannot be encoded, when the
// answer has already begun.
func TestAbortedAnswerIsLogged(t *testing.T) {
	env := newTestTier(t)
	env.load(t, append(keysOf(2000), "two/broken")...)
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("the answer is not cut short: %v", err)
			}
		}()
		env.send(t, http.MethodGet, listPath, nil)
	}()
	wantLine(t, env.lines(), "level=ERROR", "cut short", "resource=configmaps", `form="v1 json"`, "object=two/broken")
	if n := env.aborted(t, "LIST"); n != 1 {
		t.Errorf("%v answers counted, want 1", n)
	}
	if n := env.reasons(t)["encoding"]; n != 0 {
		t.Errorf("%v requests counted as passed on, want none", n)
	}
}

// TestGoneClientIsNoFailure lists for a client that goes away: no encoder has failed.
func TestGoneClientIsNoFailure(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a")
	inner := env.handler
	env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		inner.ServeHTTP(&goneClient{ResponseWriter: w}, req)
	})
	env.send(t, http.MethodGet, listPath, nil)
	if lines := env.lines(); len(lines) != 0 || env.aborted(t, "LIST") != 0 {
		t.Errorf("logged %q, counted %v", lines, env.aborted(t, "LIST"))
	}
}

// TestAbortedWatchIsLogged writes an object that cannot be encoded while a client watches.
func TestAbortedWatchIsLogged(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "one/a")
	s := env.watch(t, listPath+"?watch=1&resourceVersion=100", nil)
	env.putValue(t, "one/broken", []byte{0xff}, 101)
	s.want(t, "ERROR 500 InternalError", "end")
	waitUntil(t, "the watch is closed", func() bool { _, n := env.hub.Watches(); return n == 0 })
	wantLine(t, env.lines(), "level=ERROR", "cut short", "resource=configmaps", `form="v1 json watch"`, "object=one/broken")
	if n := env.aborted(t, "WATCH"); n != 1 {
		t.Errorf("%v watches counted, want 1", n)
	}
}

// aborted is how many answers of a verb were counted as cut short.
func (env *testTier) aborted(t *testing.T, verb string) float64 {
	t.Helper()
	families, err := env.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "millrace_read_aborted_total" {
			continue
		}
		for _, m := range family.Metric {
			if m.Label[0].GetValue() == verb {
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}
