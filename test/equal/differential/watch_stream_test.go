package differential

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/harness"
)

// stream is a watch in progress.
type stream struct {
	status int
	header http.Header
	// framing is the protocol with the transfer encodings of the answer.
	framing string
	done    chan struct{}

	mu struct {
		sync.Mutex
		watchcheck.Watch
		raw  [][]byte
		body []byte // the body of an answer that is not a stream
	}
}

// open sends a request for a watch and reads the answer until ctx ends.
func (s *side) open(ctx context.Context, r watchRequest) (*stream, error) {
	resp, err := s.send(ctx, r.request)
	if err != nil {
		return nil, err
	}
	w := &stream{status: resp.StatusCode, header: resp.Header, done: make(chan struct{}), framing: fmt.Sprint(resp.Proto, resp.TransferEncoding, resp.ContentLength)}
	w.mu.Start = r.start
	go func() {
		defer close(w.done)
		defer resp.Body.Close()
		w.read(ctx, resp)
	}()
	return w, nil
}

func (w *stream) read(ctx context.Context, resp *http.Response) {
	plain, err := decompressed(resp)
	if err != nil {
		if ctx.Err() == nil { // Otherwise the client closed the watch before an answer.
			w.mu.Lock()
			defer w.mu.Unlock()
			w.mu.Err = err
		}
		return
	}
	reader, err := watchcheck.NewReader(plain, resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || err != nil {
		body, readErr := io.ReadAll(resp.Body)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.body, w.mu.Err = body, errors.Join(err, readErr)
		return
	}
	for {
		raw, f, err := reader.Next()
		w.mu.Lock()
		switch {
		case err == nil:
			w.mu.Frames, w.mu.raw = append(w.mu.Frames, f), append(w.mu.raw, raw)
		case ctx.Err() != nil: // The client closed the watch.
		case errors.Is(err, io.EOF):
			w.mu.Ended = true
		default:
			w.mu.Err = err
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// decompressed returns a reader that decompresses the body while it arrives, if
// it is compressed. An empty body is left as it is, as in gunzip.
func decompressed(resp *http.Response) (io.Reader, error) {
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return resp.Body, nil
	}
	plain, err := gzip.NewReader(resp.Body)
	if errors.Is(err, io.EOF) {
		return resp.Body, nil
	}
	return plain, err
}

// counts returns the numbers of events and of bookmarks that end initial
// events. over is set if the watch has ended.
func (w *stream) counts() (events, ends int, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.mu.Frames {
		switch f := &w.mu.Frames[i]; {
		case f.Type == watchcheck.Error:
			return events, ends, true
		case f.InitialEnd:
			ends++
		case f.Type != watchcheck.Bookmark:
			events++
		}
	}
	return events, ends, w.mu.Ended || w.mu.Err != nil || w.status != http.StatusOK
}

// recorded waits for the end of the watch and returns its history.
func (w *stream) recorded() (*watchcheck.Watch, [][]byte) {
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	watch := w.mu.Watch
	return &watch, w.mu.raw
}

var (
	columns       = regexp.MustCompile(`"columnDefinitions":(null|\[[^\]]*\])`)
	shownVersion  = regexp.MustCompile(`"resourceVersion": ?"\d+"`)
	oldestVersion = regexp.MustCompile(`too old resource version: \d+ \(\d+\)`)
)

// frames holds the frames that must be equal on both servers. Bookmarks are
// separate, since each server sends them at its own times. So are a Table's
// columns, which are in the first frame of either kind.
type frames struct {
	events [][]byte
	end    []byte
	// endDigits is the number of digits of the revision in end, on which
	// lengths in end depend.
	endDigits int
	first     []byte
}

// sorted sorts the frames of a watch. It returns an error if a frame after the
// first has columns, or if a line feed is missing or superfluous between
// frames.
func sorted(w *watchcheck.Watch, raw [][]byte) (frames, error) {
	var wrong error
	var out frames
	for i, bytesOf := range raw {
		// A frame begins with the separator from the frame before.
		body := bytes.TrimPrefix(bytesOf, []byte("\n"))
		if separated := len(body) != len(bytesOf); body[0] == '{' && separated != (i > 0) {
			wrong = fmt.Errorf("frame %d is not separated by a line feed: %.80q", i, bytesOf)
		}
		if found := columns.Find(body); found != nil {
			if i == 0 {
				out.first = found
			} else if string(found) != `"columnDefinitions":null` {
				wrong = errColumns{i}
			}
			body = columns.ReplaceAll(body, []byte(`"columnDefinitions":…`))
		}
		switch f := &w.Frames[i]; {
		case f.InitialEnd:
			// The revision depends on how far each server's cache is.
			out.endDigits = len(fmt.Sprint(f.Revision))
			out.end = shownVersion.ReplaceAll(body, []byte(`"resourceVersion":"…"`))
			if body[0] != '{' {
				out.end = withoutRevision(body, f.Revision)
			}
		case f.Type == watchcheck.Error:
			out.events = append(out.events, withoutChance(f.Status, body))
		case f.Type != watchcheck.Bookmark:
			out.events = append(out.events, body)
		}
	}
	return out, wrong
}

// errColumns says that a frame after the first has columns. This happens in
// Kubernetes: a watch whose first frame was encoded for another watch does not
// record that its columns were sent. All frames of APIServices have columns.
type errColumns struct{ frame int }

func (e errColumns) Error() string { return fmt.Sprintf("frame %d has columns", e.frame) }

// withoutChance removes from an error what depends on a server's cache or on
// chance. Kubernetes suggests a random delay for resources that it does not
// cache.
func withoutChance(status *metav1.Status, body []byte) []byte {
	switch {
	case oldestVersion.MatchString(status.Message):
		shown := status.DeepCopy()
		shown.Message = oldestVersion.ReplaceAllString(shown.Message, "too old resource version: …")
		return fmt.Append(nil, shown)
	case strings.Contains(status.Message, "Too large resource version") && status.Details != nil && status.Details.RetryAfterSeconds > 0:
		shown := status.DeepCopy()
		shown.Details.RetryAfterSeconds = 1
		return fmt.Append(nil, shown)
	}
	return body
}

// withoutRevision replaces the resource version in a protobuf frame.
func withoutRevision(body []byte, revision int64) []byte {
	return bytes.ReplaceAll(body, []byte(fmt.Sprint(revision)), []byte("…"))
}

// differ describes how the frames of two watches differ. It is empty if they
// are equal.
func (f frames) differ(theirs frames, table bool) string {
	switch {
	case f.first != nil && theirs.first != nil && !bytes.Equal(f.first, theirs.first):
		return fmt.Sprintf("  columns of the first frame: ours %.200s, theirs %.200s\n", f.first, theirs.first)
	case (f.end == nil) != (theirs.end == nil), f.endDigits == theirs.endDigits && !bytes.Equal(f.end, theirs.end):
		return fmt.Sprintf("  end of initial events:\n    ours:   %q\n    theirs: %q\n", f.end, theirs.end)
	}
	for i := range max(len(f.events), len(theirs.events)) {
		a, b := at(f.events, i), at(theirs.events, i)
		if !bytes.Equal(a, b) && !(table && sameButAges(a, b)) {
			where := harness.FirstDifference(a, b)
			return fmt.Sprintf("  frame %d of %d and %d differs at byte %d:\n    ours:   %s\n    theirs: %s\n", i, len(f.events), len(theirs.events), where, around(a, where), around(b, where))
		}
	}
	return ""
}

func at(frames [][]byte, i int) []byte {
	if i < len(frames) {
		return frames[i]
	}
	return nil
}
