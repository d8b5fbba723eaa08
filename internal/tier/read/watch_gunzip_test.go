package read_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	kgzip "github.com/klauspost/compress/gzip"
)

// gunzips are decoders of the kinds that clients in Go have. The decoders of other
// languages are in test/equal/clients.
var gunzips = map[string]func(io.Reader) (io.Reader, error){
	"compress/gzip": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"klauspost":     func(r io.Reader) (io.Reader, error) { return kgzip.NewReader(r) },
	// Rust's flate2.GzDecoder and others stop for good after the first member.
	"one member": func(r io.Reader) (io.Reader, error) {
		z, err := gzip.NewReader(r)
		if err == nil {
			z.Multistream(false)
		}
		return z, err
	},
}

// lazyGunzip opens a decoder when it is first read. Decoders read the header of gzip when
// they are opened, and that comes with the first event.
type lazyGunzip struct {
	open    func(io.Reader) (io.Reader, error)
	wire    io.Reader
	decoder io.Reader
}

func (l *lazyGunzip) Read(p []byte) (n int, err error) {
	if l.decoder == nil {
		if l.decoder, err = l.open(l.wire); err != nil {
			return 0, err
		}
	}
	return l.decoder.Read(p)
}

// gunzipStream is a compressed watch. It keeps all bytes that came.
type gunzipStream struct {
	*stream
	decoder string
	wire    bytes.Buffer
	body    io.Reader
}

// gunzip opens a watch with each of the decoders.
func (env *watchServer) gunzip(t *testing.T, query string) (streams []*gunzipStream) {
	t.Helper()
	for name := range gunzips {
		streams = append(streams, env.gunzipBy(t, name, query))
	}
	return streams
}

// gunzipBy opens a watch with one of the decoders.
func (env *watchServer) gunzipBy(t *testing.T, decoder, query string) *gunzipStream {
	t.Helper()
	s := &gunzipStream{stream: env.watch(t, listPath+query, http.Header{"Accept-Encoding": {"gzip"}}), decoder: decoder}
	if got := s.Header.Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("Content-Encoding is %q", got)
	}
	s.body = io.TeeReader(s.Body, &s.wire)
	s.lines = bufio.NewScanner(&lazyGunzip{open: gunzips[decoder], wire: s.body})
	s.lines.Buffer(nil, 1<<20)
	return s
}

// checkEnd reads to the end. Only bookmarks may come. The bytes must be one member of gzip
// with a valid checksum and length, and nothing after it.
func (s *gunzipStream) checkEnd(t *testing.T) {
	t.Helper()
	frame := s.next(t)
	for strings.HasPrefix(frame, "BOOKMARK ") {
		frame = s.next(t)
	}
	if err := s.lines.Err(); frame != "end" || err != nil {
		t.Errorf("%s: %s, %v at the end", s.decoder, frame, err)
	}
	if _, err := io.Copy(io.Discard, s.body); err != nil {
		t.Errorf("%s: read behind the end: %v", s.decoder, err)
	}
	wire := bytes.NewReader(s.wire.Bytes())
	member, err := gzip.NewReader(wire)
	if err != nil {
		t.Fatal(err)
	}
	member.Multistream(false)
	if _, err := io.Copy(io.Discard, member); err != nil || wire.Len() > 0 {
		t.Errorf("%s: %d bytes behind the first member, %v", s.decoder, wire.Len(), err)
	}
}

// watchEnd is a way in which a watch ends.
type watchEnd struct {
	name string
	// query is added to that of the watch.
	query string
	// cause makes the watch end.
	cause func(t *testing.T, env *watchServer)
	// last is the frame that marks the end, "" if there is none.
	last string
}

func watchEnds() []watchEnd {
	return []watchEnd{
		{name: "timeoutSeconds", query: "&timeoutSeconds=5", cause: func(*testing.T, *watchServer) {}},
		{name: "shutdown", cause: func(_ *testing.T, env *watchServer) { close(env.shutdown) }},
		{name: "definition", cause: func(_ *testing.T, env *watchServer) { env.route.End() }},
		{name: "410", cause: func(t *testing.T, env *watchServer) { env.load(t, "a/one") }, last: "ERROR 410 Expired"},
		{name: "opaque object", cause: func(t *testing.T, env *watchServer) { env.put(t, "a/irregular", "x", 1000) }},
	}
}

// TestGunzipOfEachEvent writes an event only when all clients have decoded the one before.
// Then come bursts. Clients that begin later share frames which are compressed after
// others. At each end the decoders must find the end of gzip.
func TestGunzipOfEachEvent(t *testing.T) {
	for _, end := range watchEnds() {
		for _, protocol := range []string{"HTTP/2", "HTTP/1.1"} {
			for kind, query := range map[string]string{
				"plain":      "?watch=1&resourceVersion=100",
				"watch-list": "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
			} {
				t.Run(fmt.Sprint(end.name, " ", kind, " ", protocol), func(t *testing.T) {
					t.Parallel()
					testGunzip(t, newWatchServer(t, protocol == "HTTP/2"), query, end)
				})
			}
		}
	}
}

func testGunzip(t *testing.T, env *watchServer, query string, end watchEnd) {
	env.load(t, "a/one")
	revision := int64(cacheRevision)
	change := func(size int) string {
		revision++
		env.put(t, "a/one", strings.Repeat(fmt.Sprint(revision, " "), size/4), revision)
		return fmt.Sprint("MODIFIED one ", revision)
	}
	streams := env.gunzip(t, query+end.query)
	all := func(frames ...string) {
		t.Helper()
		for _, s := range streams {
			s.want(t, frames...)
		}
	}
	if strings.Contains(query, "sendInitialEvents") {
		all("ADDED one 1", "BOOKMARK  100")
	}
	var missed []string
	for _, size := range []int{4, 4, 400, 40 << 10, 40, 4} { // one is larger than deflate's window
		frame := change(size)
		all(frame)
		missed = append(missed, frame)
	}
	late := env.gunzip(t, "?watch=1&resourceVersion=102"+end.query)
	for _, s := range late {
		s.want(t, missed[2:]...)
	}
	streams = append(streams, late...)
	for range 3 {
		all(change(100))
	}
	var burst []string
	for i := range 100 {
		burst = append(burst, change(i*i%3000))
	}
	all(burst...)
	end.cause(t, env)
	if end.last != "" {
		all(end.last)
	}
	for _, s := range streams {
		s.checkEnd(t)
	}
}

// TestGunzipOfErrorAlone ends a watch whose first frame is an error.
func TestGunzipOfErrorAlone(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "a/one")
	for _, s := range env.gunzip(t, "?watch=1&resourceVersion=1") {
		s.want(t, "ERROR 410 Expired")
		s.checkEnd(t)
	}
}

// TestGunzipOfNothing ends a watch that had no event. Its body is a member of gzip without
// content.
func TestGunzipOfNothing(t *testing.T) {
	env := newWatchServer(t, true)
	env.load(t, "a/one")
	for _, s := range env.gunzip(t, "?watch=1&resourceVersion=100&timeoutSeconds=1") {
		s.checkEnd(t)
	}
}
