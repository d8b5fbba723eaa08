package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/build/image"
	"github.com/millrace/millrace/test/support/harness"
)

// unpack returns the files of a tar file. Owners and times must be the same for all.
func unpack(t *testing.T, from io.Reader) (files map[string][]byte, modes map[string]int64) {
	t.Helper()
	files, modes = map[string][]byte{}, map[string]int64{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files, modes
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.ModTime.Unix() != 0 {
			t.Errorf("%s has owner %d %q and time %v", header.Name, header.Uid, header.Uname, header.ModTime)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
}

// descriptor is a descriptor of the OCI image specification.
type descriptor struct {
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

// blob returns what a descriptor describes, and checks its digest.
func (d descriptor) blob(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	data := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if d.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(data)) || d.Size != len(data) {
		t.Fatalf("blob %s of %d bytes has %d with another digest", d.Digest, d.Size, len(data))
	}
	return data
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}

func makeImage(t *testing.T, program []byte) []byte {
	t.Helper()
	cfg := &image.Config{Program: program, Roots: []byte("roots"), Arch: runtime.GOARCH, Name: "example/millrace:1", Version: "1", Created: time.Unix(0, 0)}
	var out bytes.Buffer
	if err := image.Write(&out, cfg); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestImageIsReproducible makes two images of one program.
func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	program := bytes.Repeat([]byte("program"), 10_000)
	if !bytes.Equal(makeImage(t, program), makeImage(t, program)) {
		t.Error("two images of one program differ")
	}
}

// TestImage makes an image of a script in the place of the program, unpacks it as a container
// runtime does, and runs what its configuration names. The program itself takes long to pack.
func TestImage(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	check(t, err)
	packed := makeImage(t, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' \"$@\"\n", program))
	files, _ := unpack(t, bytes.NewReader(packed))
	var index struct{ Manifests []descriptor }
	decode(t, files["index.json"], &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(t, index.Manifests[0].blob(t, files), &manifest)
	var config struct {
		Architecture, OS string
		Config           struct{ Env, Entrypoint []string }
		RootFS           struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(t, manifest.Config.blob(t, files), &config)
	if config.Architecture != runtime.GOARCH || config.OS != "linux" || string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("platform %s/%s, layout %s", config.OS, config.Architecture, files["oci-layout"])
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(manifest.Layers[0].blob(t, files)))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	tree, modes := unpack(t, io.TeeReader(unzipped, sum))
	if _, err := io.Copy(sum, unzipped); err != nil {
		t.Fatal(err)
	}
	if id := fmt.Sprintf("sha256:%x", sum.Sum(nil)); config.RootFS.DiffIDs[0] != id {
		t.Errorf("layer is %s, and the configuration has %s", id, config.RootFS.DiffIDs[0])
	}
	name := strings.TrimPrefix(config.Config.Env[0], "PATH=/") + "/" + config.Config.Entrypoint[0]
	file := filepath.Join(t.TempDir(), "millrace")
	if err := os.WriteFile(file, tree[name], os.FileMode(modes[name])); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), file, "version")
	cmd.Env = append(os.Environ(), harness.AsProgram)
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "Millrace") || string(tree["etc/ssl/certs/ca-certificates.crt"]) != "roots" {
		t.Errorf("%s version: %v\n%s", name, err, output)
	}
}
