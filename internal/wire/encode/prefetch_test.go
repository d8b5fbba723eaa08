package encode

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/entry"
)

// withHelpers lets lists have n helpers, whatever the number of processors.
func withHelpers(t *testing.T, n int) {
	t.Helper()
	before := helperSemaphore
	helperSemaphore = make(chan struct{}, n)
	t.Cleanup(func() { helperSemaphore = before })
}

// TestPrefetchedListIsWhatTheEncoderWrites writes cold lists with helpers. Each object is
// decoded once.
func TestPrefetchedListIsWhatTheEncoderWrites(t *testing.T) {
	withHelpers(t, 3)
	const objects = 2000
	for name, framing := range framings {
		for _, encoding := range []Encoding{Identity, Gzip, Zstd} {
			w := newFixture(t)
			all := groups(t, objects, 48)
			f := w.form(t, framing)
			want := w.expectedList(t, framing, all, 0, objects)
			w.decoded.Store(0)
			var out bytes.Buffer
			if err := newList(f, all, 0, objects).Write(&out, encoding); err != nil {
				t.Fatal(err)
			}
			if n := w.decoded.Load(); n != objects {
				t.Errorf("%s, %v: decoded %d objects, want %d", name, encoding, n, objects)
			}
			checkList(t, name, newList(f, all, 0, objects), want)
			if encoding == Identity && !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%s: the answer differs with prefetching goroutines", name)
			}
		}
	}
}

// TestPrefetchRunsAhead makes the first group wait until the second is begun, and the second
// until the third is encoded. So the third is encoded by another helper, or by the walk
// while its only helper is busy.
func TestPrefetchRunsAhead(t *testing.T) {
	for _, helpers := range []int{1, 2} {
		t.Run(strconv.Itoa(helpers), func(t *testing.T) { testPrefetchRunsAhead(t, helpers) })
	}
}

func testPrefetchRunsAhead(t *testing.T, helpers int) {
	withHelpers(t, helpers)
	w := newFixture(t)
	all := groups(t, 480, 48)
	f := w.form(t, JSON)
	second, third := make(chan struct{}), make(chan struct{})
	await := func(what string, is <-chan struct{}) {
		select {
		case <-is:
		case <-time.After(20 * time.Second):
			t.Error("timed out waiting until " + what)
		}
	}
	decode := f.cfg.Decode
	f.cfg.Decode = func(e *entry.Entry) (runtime.Object, error) {
		switch e {
		case all[0].entries[0]:
			await("the second group is begun", second)
		case all[1].entries[0]:
			close(second)
			await("the third group is encoded", third)
		case all[2].entries[47]:
			close(third)
		}
		return decode(e)
	}
	if err := newList(f, all, 0, 480).Write(io.Discard, Identity); err != nil {
		t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var errGone = errors.New("gone")

// TestPrefetchEndsWithItsList ends a list early: the client is gone, an object cannot be decoded,
// or decoding panics. The helpers must end too.
func TestPrefetchEndsWithItsList(t *testing.T) {
	withHelpers(t, 3)
	for name, c := range map[string]struct {
		to     io.Writer
		decode func() error
		want   string
	}{
		"client gone":  {writerFunc(func([]byte) (int, error) { return 0, errGone }), func() error { return nil }, "gone"},
		"bad object":   {io.Discard, func() error { return errNotDecoded }, errNotDecoded.Error()},
		"panic inside": {io.Discard, func() error { panic("oh") }, "oh"},
	} {
		w := newFixture(t)
		all := groups(t, 2000, 48)
		f := w.form(t, JSON)
		decode := f.cfg.Decode
		f.cfg.Decode = func(e *entry.Entry) (runtime.Object, error) {
			if e == all[5].entries[3] {
				if err := c.decode(); err != nil {
					return nil, err
				}
			}
			return decode(e)
		}
		if got := writeGuarded(newList(f, all, 0, 2000), c.to); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for range cap(helperSemaphore) { // Each helper gives its slot back.
			helperSemaphore <- struct{}{}
		}
		for range cap(helperSemaphore) {
			<-helperSemaphore
		}
	}
}

// writeGuarded returns the text of the error or panic with which writing failed.
func writeGuarded(l *List, to io.Writer) (failure string) {
	defer func() {
		if p := recover(); p != nil {
			failure = p.(string)
		}
	}()
	if err := l.Write(to, Identity); err != nil {
		return err.Error()
	}
	return ""
}
