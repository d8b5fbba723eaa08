package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// ShellPrefix is where the page is.
const ShellPrefix = "/millrace/"

//go:embed static
var static embed.FS

// policy lets the page load what is its own and nothing else, and run no script
// that was put into it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// mediaTypes are those of the files that there may be.
var mediaTypes = map[string]string{
	"html": "text/html; charset=utf-8",
	"js":   "text/javascript; charset=utf-8",
	"css":  "text/css; charset=utf-8",
	"svg":  "image/svg+xml",
}

// file is one of the page's.
type file struct {
	content         []byte
	mediaType, etag string
}

// Shell returns what puts the page's files in front of a handler, which all other
// requests are passed on to. The page holds no data and asks for no rights, so it
// may stand in front of authentication. Only the paths of the files are its own, for
// GET and HEAD alone. What they cost is bounded by a rate for each address.
func Shell() (func(next http.Handler) http.Handler, error) {
	files, err := readFiles()
	if err != nil {
		return nil, err
	}
	l := newLimiter()
	return func(next http.Handler) http.Handler { return shell{files, l, next} }, nil
}

type shell struct {
	files   map[string]*file
	limiter *limiter
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
	if req.ProtoMajor == 2 {
		// As with other requests that nobody has authenticated: the connection takes no more.
		w.Header().Set("Connection", "close")
	}
	switch {
	case !s.limiter.allow(req.RemoteAddr):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests for the page: try again in a second", http.StatusTooManyRequests)
	case redirects:
		http.Redirect(w, req, ShellPrefix, http.StatusMovedPermanently)
	default:
		f.serve(w, req)
	}
}

// readFiles returns the files by the rest of their path. The page itself is
// that of the folder.
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

// serve answers with the file, or that the client has it. There are no ranges: a list of
// them would cost more than it asks for.
func (f *file) serve(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.mediaType)
	header.Set("ETag", f.etag)
	// A new version of the server has new files under the same names.
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
		_, _ = w.Write(f.content) // it fails if the client has gone
	}
}

// matches reports whether a client has the file, by lists of entity tags.
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
