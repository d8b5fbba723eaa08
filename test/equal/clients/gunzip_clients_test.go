package clients

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tier/read"
)

// extraVariable names more clients for TestGunzip, as in "flate2=/tmp/follow". Each has a
// name, which is its kind as well, and a command that follows watches as scripts/follow.py does.
const extraVariable = "MILLRACE_GUNZIP_CLIENTS"

// gunzipClient is a client with a decoder of gzip.
type gunzipClient struct {
	name string
	// command follows the watches that it reads from its standard input, as
	// scripts/follow.py says. kind is its decoder. Nil stands for a client in Go.
	command []string
	kind    string
	// probe and hint are those of client.
	probe []string
	hint  string
	// roundTripper makes the transport of a client in Go, and decode its decoder.
	roundTripper func(*rest.Config) (http.RoundTripper, error)
	decode       func(io.Reader) (io.Reader, error)
	// buffers is set if the client hands out an event only when another one has
	// come. It says why.
	buffers string
	// plainOnly is set if the client follows no watch-lists and no compressed
	// watches.
	plainOnly bool
	// givesUp is set if the client gives up its requests when the connection is told
	// to go away, as at a shutdown, whether they are compressed or not.
	givesUp bool
}

func gunzipClients() []gunzipClient {
	all := []gunzipClient{
		{name: "go client-go", roundTripper: rest.TransportFor, decode: func(r io.Reader) (io.Reader, error) { return r, nil }},
		{name: "go compress/gzip", roundTripper: withoutDecompression, decode: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
		{name: "go one member", roundTripper: withoutDecompression, decode: oneMember},
	}
	for _, kind := range []string{"zlib", "urllib3", "requests", "requests_lines", "httpx", "httpx1", "aiohttp", "pycurl", "gzipfile", "kubernetes"} {
		module, _, _ := strings.Cut(strings.TrimSuffix(kind, "1"), "_")
		c := gunzipClient{name: "python " + kind, command: []string{python, "scripts/follow.py"}, kind: kind, hint: "Python has no " + module + ": run make clients"}
		switch kind {
		case "gzipfile":
			module, c.buffers = "gzip", "GzipFile reads until its buffer is full"
		case "kubernetes":
			c.plainOnly = true
		case "httpx":
			c.givesUp = true
		}
		c.probe = []string{python, "-c", "import " + module}
		all = append(all, c)
	}
	for _, kind := range []string{"gunzip", "gunzip2", "syncflush", "fetch", "decompressionstream"} {
		all = append(all, gunzipClient{name: "node " + kind, command: []string{"node", "scripts/follow.mjs"}, kind: kind, probe: []string{"node", "--version"}, hint: "there is no Node"})
	}
	all = append(all, gunzipClient{
		name: "node kubernetes", command: []string{"node", "scripts/follow.mjs"}, kind: "kubernetes",
		probe: []string{"test", "-d", "../../../bin/node/node_modules/@kubernetes/client-node"},
		hint:  "Node has no @kubernetes/client-node: run make clients",
	})
	for _, kind := range []string{"bytes", "bytes1", "urlconnection", "reader"} {
		c := gunzipClient{
			name: "java " + kind, probe: []string{"javac", "--version"}, hint: "there is no JDK",
			command: []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "scripts/Follow.java"},
			kind:    kind,
		}
		switch kind {
		case "bytes": // over HTTP/2
			c.givesUp = true
		case "reader":
			c.buffers = "InputStreamReader fills its 8 KiB: GZIPInputStream.available is 1 until the end"
		}
		all = append(all, c)
	}
	for extra := range strings.SplitSeq(os.Getenv(extraVariable), ";") {
		if name, command, ok := strings.Cut(extra, "="); ok {
			all = append(all, gunzipClient{name: name, command: strings.Fields(command), kind: name, probe: []string{"true"}})
		}
	}
	return append(all, gunzipClient{name: "curl", command: []string{"bash", "scripts/follow.sh"}, kind: "curl", probe: []string{"curl", "--version"}, hint: "there is no curl"})
}

// withoutDecompression returns client-go's transport without Go's own gunzip.
func withoutDecompression(config *rest.Config) (http.RoundTripper, error) {
	config.DisableCompression = true
	return rest.TransportFor(config)
}

// oneMember reads one member of gzip. What comes behind it is an error.
func oneMember(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return io.MultiReader(z, &endReader{in}), nil
}

// endReader expects the end of its source.
type endReader struct{ from io.Reader }

func (n *endReader) Read(p []byte) (int, error) {
	count, err := n.from.Read(p)
	if count > 0 {
		return 0, fmt.Errorf("%q behind the first member of gzip", p[:count])
	}
	return 0, err
}

// clientWatch is a watch that a client follows.
type clientWatch struct {
	client *followingClient
	name   string
	lines  chan string
	// ended is closed behind the last line. Then err is the client's error.
	ended chan struct{}
	err   error
}

// followingClient is a client that follows watches. script is nil for a client in Go.
type followingClient struct {
	gunzipClient
	script    *followScript
	transport http.RoundTripper
	url       string
}

// followScript is a running script. All clients with the same command share it.
type followScript struct {
	in io.Writer
	mu struct {
		sync.Mutex
		watches []*clientWatch
	}
}

// need skips the test if the client is not installed.
func (c gunzipClient) need(t *testing.T) {
	t.Helper()
	if c.command != nil {
		client{probe: c.probe, hint: c.hint}.need(t)
	}
}

// startFollowing starts a script, which runs until the end of the test.
func (s *side) startFollowing(t *testing.T, command []string) *followScript {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(s.environment(client{name: "gunzip"}), "NODE_EXTRA_CA_CERTS="+filepath.Join(s.DataDir, "pki", "ca.crt"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	f := &followScript{in: in}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.read(out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	return f
}

// follow lets the client open a watch.
func (c *followingClient) follow(t *testing.T, path string) *clientWatch {
	t.Helper()
	w := &clientWatch{client: c, name: c.name + " " + path, lines: make(chan string, 10_000), ended: make(chan struct{})}
	if c.script == nil {
		go w.run(t, path)
		return w
	}
	c.script.mu.Lock()
	defer c.script.mu.Unlock()
	number := len(c.script.mu.watches)
	c.script.mu.watches = append(c.script.mu.watches, w)
	if _, err := fmt.Fprintln(c.script.in, number, c.kind, path); err != nil {
		t.Errorf("%s: %v", c.name, err)
	}
	return w
}

// read reads the lines of a script.
func (s *followScript) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		number, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		s.mu.Lock()
		var w *clientWatch
		if n, err := strconv.Atoi(number); err == nil && n < len(s.mu.watches) {
			w = s.mu.watches[n]
		}
		s.mu.Unlock()
		failure, end := strings.CutPrefix(text, "END")
		switch {
		case w == nil:
		case end:
			w.end(strings.TrimSpace(failure))
		default:
			w.lines <- text
		}
	}
}

func (w *clientWatch) end(failure string) {
	if failure != "" {
		w.err = errors.New(failure)
	}
	close(w.ended)
}

// run follows a watch with a client in Go.
func (w *clientWatch) run(t *testing.T, path string) {
	err := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.client.url+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set(read.CompressWatchHeader, "1")
		if w.client.name != "go client-go" {
			req.Header.Set("Accept-Encoding", "gzip")
		}
		resp, err := w.client.transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if !resp.Uncompressed && resp.Header.Get("Content-Encoding") != "gzip" {
			return fmt.Errorf("answer is not compressed: %v", resp.Header)
		}
		body, err := w.client.decode(resp.Body)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			w.lines <- lines.Text()
		}
		return lines.Err()
	}()
	if err != nil {
		w.end(err.Error())
		return
	}
	w.end("")
}

// frame is an event as the tests look at it.
type frame struct {
	Type   string
	Object struct {
		Code int
		Data struct{ Text string }
	}
}

func (f *frame) String() string {
	switch f.Type {
	case "ERROR":
		return fmt.Sprint("ERROR ", f.Object.Code)
	case "BOOKMARK":
		return f.Type
	}
	return f.Type + " " + f.Object.Data.Text
}

// next returns the next frame in short. It returns "end" or an error's text at the end.
func (w *clientWatch) next() string {
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case line := <-w.lines:
		return short(line)
	default:
	}
	select {
	case line := <-w.lines:
		return short(line)
	case <-w.ended:
		if len(w.lines) > 0 {
			return short(<-w.lines)
		}
		if w.err != nil {
			return "ends with " + w.err.Error()
		}
		return "end"
	case <-timer.C:
		return "nothing in 30 s"
	}
}

func short(line string) string {
	var f frame
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		return fmt.Sprintf("%v: %.200q", err, line)
	}
	return f.String()
}

// want reads frames. It skips bookmarks that are not asked for.
func (w *clientWatch) want(t *testing.T, frames ...string) {
	t.Helper()
	for _, want := range frames {
		got := w.next()
		for got == "BOOKMARK" && want != got {
			got = w.next()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", w.name, got, want)
			return
		}
	}
}

// wantEnd reads events to the end.
func (w *clientWatch) wantEnd(t *testing.T) {
	t.Helper()
	seen, got := 0, w.next()
	for ; got != "end" && !strings.HasPrefix(got, "ends with ") && !strings.HasPrefix(got, "nothing "); got = w.next() {
		seen++
	}
	if got != "end" || seen == 0 {
		t.Errorf("%s: %d events, then %q", w.name, seen, got)
	}
}
