package release_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// unpackedFile is a file of a tar file.
type unpackedFile struct {
	mode int64
	data []byte
}

// unpack returns the files of a tar file. Owners and times must be the same for all.
func unpack(t *testing.T, from io.Reader) map[string]*unpackedFile {
	t.Helper()
	files := map[string]*unpackedFile{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		check(t, err)
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || !header.ModTime.Equal(created) {
			t.Errorf("%s has owner %d %q and time %v", header.Name, header.Uid, header.Uname, header.ModTime)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		data, err := io.ReadAll(r)
		check(t, err)
		files[header.Name] = &unpackedFile{header.Mode, data}
	}
}

// run runs a stub, which prints its version.
func run(t *testing.T, program *unpackedFile) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	if program == nil {
		t.Fatal("the program is missing")
	}
	file := filepath.Join(t.TempDir(), "program")
	check(t, os.WriteFile(file, program.data, os.FileMode(program.mode)))
	if out, err := exec.CommandContext(t.Context(), file).CombinedOutput(); err != nil || string(out) != version+"\n" {
		t.Errorf("program said %q: %v", out, err)
	}
}

// readImage unpacks an image layout. It returns what its index lists, and the index.
func readImage(t *testing.T, packed []byte) (v1.Descriptor, v1.ImageIndex) {
	t.Helper()
	dir := t.TempDir()
	for name, file := range unpack(t, bytes.NewReader(packed)) {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		check(t, os.WriteFile(filepath.Join(dir, name), file.data, 0o600))
	}
	index, err := layout.ImageIndexFromPath(dir)
	check(t, err)
	manifest, err := index.IndexManifest()
	check(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("layout lists %+v", manifest.Manifests)
	}
	return manifest.Manifests[0], index
}
