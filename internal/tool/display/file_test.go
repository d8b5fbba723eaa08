package display

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckFile checks that CheckFile and WritePage agree about a file, and that CheckFile
// creates nothing that stays.
func TestCheckFile(t *testing.T) {
	for name, test := range map[string]struct {
		// make makes the file, if it is to exist. Paths are in a directory of the test.
		make       func(file, dir string) error
		isWritable bool
	}{
		"new":       {func(string, string) error { return nil }, true},
		"regular":   {func(file, _ string) error { return os.WriteFile(file, []byte("old"), 0o644) }, true},
		"directory": {func(file, _ string) error { return os.Mkdir(file, 0o755) }, false},
		"link": {func(file, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "target"), []byte("a longer old text"), 0o644); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(dir, "target"), file)
		}, true},
		"dangling link":       {func(file, dir string) error { return os.Symlink(filepath.Join(dir, "missing"), file) }, false},
		"link to a directory": {func(file, dir string) error { return os.Symlink(dir, file) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "page.html")
			if err := test.make(file, dir); err != nil {
				t.Fatal(err)
			}
			before := entries(t, dir)
			if err := CheckFile(file); (err == nil) != test.isWritable {
				t.Errorf("check: %v", err)
			}
			if after := entries(t, dir); after != before {
				t.Errorf("check leaves %d files, there were %d", after, before)
			}
			if err := WritePage(file, "new", nil, nil); (err == nil) != test.isWritable {
				t.Errorf("write: %v", err)
			}
			if !test.isWritable {
				return
			}
			if content, err := os.ReadFile(file); err != nil || string(content) != "\nnew" {
				t.Errorf("the file has %q, %v", content, err)
			}
		})
	}
	if err := CheckFile(""); err != nil {
		t.Errorf("no file: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if err := CheckFile(filepath.Join(missing, "page.html")); err == nil || !strings.Contains(err.Error(), missing+": no such file") || strings.Contains(err.Error(), "/.") {
		t.Errorf("a directory is missing: got %v, want its name alone", err)
	}
}

// entries returns the number of files in a directory.
func entries(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
