package floor

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// TestFloorServesCaptures serves bodies around the size of one write. The child process is
// covered by the tests of the subcommands.
func TestFloorServesCaptures(t *testing.T) {
	dir := t.TempDir()
	bodies := map[string][]byte{"empty": nil, "small": []byte("x"), "chunk": bytes.Repeat([]byte("ab"), writeBytes/2), "large": bytes.Repeat([]byte("abc"), writeBytes)}
	var captures []Body
	for name, body := range bodies {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
		captures = append(captures, Body{Name: name, ContentType: "type/" + name, ContentEncoding: "coding"})
	}
	if err := testbed.WriteJSON(filepath.Join(dir, manifestFile), captures); err != nil {
		t.Fatal(err)
	}
	f, err := newServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range bodies {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Body{Name: name}.URI(), nil))
		got := w.Result()
		text, _ := io.ReadAll(got.Body)
		if !bytes.Equal(text, body) || got.Header.Get("Content-Type") != "type/"+name || got.Header.Get("Content-Encoding") != "coding" {
			t.Errorf("%s: %d bytes, want %d; header %v", name, len(text), len(body), got.Header)
		}
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("readyz: %d", w.Code)
	}
}

func TestFloorNeedsItsFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := newServer(dir); err == nil {
		t.Error("no error without a manifest")
	}
	if err := testbed.WriteJSON(filepath.Join(dir, manifestFile), []Body{{Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := newServer(dir); err == nil {
		t.Error("no error without a body")
	}
}
