package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/account/ratelimit"
)

// ShellPrefix is the path of the page.
const ShellPrefix = "/millrace/"

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy of the page. The page may load its own files
// only, and runs no script that a report's text contains.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	// shellRate is how many requests a second an address may send for the page's files.
	// shellBurst is how many it may send in a burst. A page has some 20 files.
	shellRate  = 20
	shellBurst = 100
	// shellPages is how many requests a browser may send in a burst: it may load the page
	// twice. A client with more requests is no browser.
	shellPages = 50
	// shellBuckets is the number of token buckets, which addresses share.
	shellBuckets = 64
)

// mediaTypes are by the suffix of a file.
var mediaTypes = map[string]string{
	"html": "text/html; charset=utf-8",
	"js":   "text/javascript; charset=utf-8",
	"css":  "text/css; charset=utf-8",
	"svg":  "image/svg+xml",
}

// file is a file of the page.
type file struct {
	content         []byte
	mediaType, etag string
}

// Shell returns a function that puts the page's files in front of another handler.
// GET and HEAD of the files' paths are answered here. All other requests go to next.
//
// The page holds no data and needs no rights, so it may stand in front of
// authentication. A rate limit for each address bounds its cost.
func Shell() (func(next http.Handler) http.Handler, error) {
	files, err := readFiles()
	if err != nil {
		return nil, err
	}
	l := ratelimit.New(ratelimit.Config{Rate: shellRate, Burst: shellBurst, Buckets: shellBuckets})
	return func(next http.Handler) http.Handler { return shell{files, l, next} }, nil
}

type shell struct {
	files   map[string]*file
	limiter *ratelimit.Limiter
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (s shell) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name, ours := strings.CutPrefix(req.URL.Path, ShellPrefix)
	f := s.files[name]
	redirects := req.URL.Path+"/" == ShellPrefix
	if req.Method != http.MethodGet && req.Method != http.MethodHead || !redirects && (!ours || f == nil) {
		s.next.ServeHTTP(w, req)
		return
	}
	spent, allowed := s.limiter.Take(ratelimit.ClientOf(req.RemoteAddr))
	if spent > shellPages && req.ProtoMajor == 2 {
		// Kubernetes closes connections of unauthenticated HTTP/2 requests likewise. A
		// browser's connections must stay open. A browser sends requests of a closed connection
		// again on another connection, and gives up after a few times.
		w.Header().Set("Connection", "close")
	}
	switch {
	case !allowed:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests for the page: try again in a second", http.StatusTooManyRequests)
	case redirects:
		http.Redirect(w, req, ShellPrefix, http.StatusMovedPermanently)
	default:
		f.serve(w, req)
	}
}

// readFiles returns the files by their path below ShellPrefix. The path of index.html is
// "".
func readFiles() (map[string]*file, error) {
	entries, err := static.ReadDir("static")
	if err != nil {
		return nil, fmt.Errorf("list the page's files: %w", err)
	}
	files := map[string]*file{}
	for _, e := range entries {
		content, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the page's files: %w", err)
		}
		_, suffix, _ := strings.Cut(e.Name(), ".")
		sum := sha256.Sum256(content)
		name := e.Name()
		if name == "index.html" {
			name = ""
		}
		files[name] = &file{content: content, mediaType: mediaTypes[suffix], etag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	return files, nil
}

// serve answers with the file, or with 304 if the client has it. It ignores ranges: a
// list of them could cost more than the file.
func (f *file) serve(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.mediaType)
	header.Set("ETag", f.etag)
	// Another version of the server has other files under the same names.
	header.Set("Cache-Control", "no-cache")
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if f.matches(req.Header.Values("If-None-Match")) {
		header.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(f.content)))
	if req.Method != http.MethodHead {
		_, _ = w.Write(f.content) // an error means that the client is gone
	}
}

// matches reports whether lists of entity tags contain the file's.
func (f *file) matches(lists []string) bool {
	for _, list := range lists {
		for tag := range strings.SplitSeq(list, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == f.etag {
				return true
			}
		}
	}
	return false
}
