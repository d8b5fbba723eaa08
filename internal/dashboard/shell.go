package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
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
// GET and HEAD alone.
func Shell() (func(next http.Handler) http.Handler, error) {
	files, err := readFiles()
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler { return shell{files, next} }, nil
}

type shell struct {
	files map[string]*file
	next  http.Handler
}

// ServeHTTP implements http.Handler.
func (s shell) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name, ours := strings.CutPrefix(req.URL.Path, ShellPrefix)
	f := s.files[name]
	switch {
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		s.next.ServeHTTP(w, req)
	case ours && f != nil:
		f.serve(w, req)
	case req.URL.Path+"/" == ShellPrefix:
		http.Redirect(w, req, ShellPrefix, http.StatusMovedPermanently)
	default:
		s.next.ServeHTTP(w, req)
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
	http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(f.content))
}
