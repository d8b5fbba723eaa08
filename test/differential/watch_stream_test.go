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
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/test/harness"
	"github.com/millrace/millrace/test/history"
)

// stream is a watch that runs.
type stream struct {
	status int
	header http.Header
	// framing is how the answer is sent: the protocol and transfer encodings.
	framing string
	done    chan struct{}

	mu struct {
		sync.Mutex
		history.Watch
		raw  [][]byte
		body []byte // of an answer that is no stream
	}
}

// open sends a request for a watch and reads its answer until the context ends.
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
		if ctx.Err() == nil { // else the client left before there was anything
			w.mu.Lock()
			defer w.mu.Unlock()
			w.mu.Err = err
		}
		return
	}
	reader, err := history.NewReader(plain, resp.Header.Get("Content-Type"))
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
		case ctx.Err() != nil: // the client left
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

// decompressed reads a body that may be a gzip stream as it comes.
func decompressed(resp *http.Response) (io.Reader, error) {
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return resp.Body, nil
	}
	return gzip.NewReader(resp.Body)
}

// watchHeaders are what a watch's answer has in common with Kubernetes', which
// never compresses one.
func watchHeaders(header http.Header, asked string) http.Header {
	if header.Get("Content-Encoding") != "gzip" || negotiated([]string{asked}, encode.Gzip) != "gzip" {
		return header
	}
	header = header.Clone()
	header.Del("Content-Encoding")
	if slices.Equal(header["Vary"], []string{"Accept-Encoding"}) {
		header.Del("Vary")
	}
	return header
}

// counts are how many events, and ends of initial ones, were read.
func (w *stream) counts() (events, ends int, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.mu.Frames {
		switch f := &w.mu.Frames[i]; {
		case f.Type == history.Error:
			return events, ends, true
		case f.InitialEnd:
			ends++
		case f.Type != history.Bookmark:
			events++
		}
	}
	return events, ends, w.mu.Ended || w.mu.Err != nil || w.status != http.StatusOK
}

// recorded is the history, once it is over.
func (w *stream) recorded() (*history.Watch, [][]byte) {
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

// frames splits what is compared exactly from bookmarks, which each server
// sends at its own times. A table's columns are in its first frame, whatever
// that is.
type frames struct {
	events [][]byte
	end    []byte
	// endDigits is how long the revision is in end, of which lengths depend.
	endDigits int
	first     []byte
}

// sorted sorts the frames of a watch. The error is that a frame other than the
// first has columns, or is not separated.
func sorted(w *history.Watch, raw [][]byte) (frames, error) {
	var wrong error
	var out frames
	for i, bytesOf := range raw {
		// The separator comes with the frame behind it.
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
			// Each server says how far its cache is.
			out.endDigits = len(fmt.Sprint(f.Revision))
			out.end = shownVersion.ReplaceAll(body, []byte(`"resourceVersion":"…"`))
			if body[0] != '{' {
				out.end = withoutRevision(body, f.Revision)
			}
		case f.Type == history.Error:
			out.events = append(out.events, withoutChance(f.Status, body))
		case f.Type != history.Bookmark:
			out.events = append(out.events, body)
		}
	}
	return out, wrong
}

// errColumns is that a frame behind the first one has columns. It happens to
// Kubernetes: a watch whose first frame was encoded for another one does not
// note that it has sent them. All frames of APIServices have them.
type errColumns struct{ frame int }

func (e errColumns) Error() string { return fmt.Sprintf("frame %d has columns", e.frame) }

// withoutChance leaves out of an error what depends on a server's cache or chance:
// Kubernetes asks for a random pause where it does not cache.
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

// withoutRevision takes the resource version out of a frame of protobuf.
func withoutRevision(body []byte, revision int64) []byte {
	return bytes.ReplaceAll(body, []byte(fmt.Sprint(revision)), []byte("…"))
}

// differ says how the frames of two watches differ; "" if they do not.
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
