package release

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// Image describes a container image. All fields are required.
type Image struct {
	Source Source
	// Program is the executable's name.
	Program string
	// Executables has the program's executables by platform.
	Executables map[string][]byte
	// Roots has the certificates that the program trusts for webhooks and identity providers,
	// in PEM form.
	Roots []byte
	// Name is the image's full name with a tag. Runtimes import the image under it.
	Name string
}

const (
	programDir = "usr/local/bin"
	rootsPath  = "etc/ssl/certs/ca-certificates.crt"
)

// Tar returns the image as an OCI image layout in a tar file, which container runtimes and
// registries' tools import. With several platforms it has an index, from which a runtime
// takes its own platform.
func (m *Image) Tar() ([]byte, error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := m.writeLayout(dir); err != nil {
		return nil, fmt.Errorf("write image layout: %w", err)
	}
	var files []tarFile
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		files = append(files, tarFile{name, 0o644, data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read image layout: %w", err)
	}
	return tarOf(m.Source.Time, files)
}

// writeLayout writes the image layout into an empty directory.
func (m *Image) writeLayout(dir string) error {
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// containerd reads the name from the first annotation. The specification has the second.
	annotations := layout.WithAnnotations(map[string]string{"io.containerd.image.name": m.Name, "org.opencontainers.image.ref.name": m.Name})
	var all v1.ImageIndex = empty.Index
	for _, name := range slices.Sorted(maps.Keys(m.Executables)) {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return err
		}
		image, err := m.imageFor(platform, m.Executables[name])
		if err != nil {
			return err
		}
		if len(m.Executables) == 1 {
			return out.AppendImage(image, annotations, layout.WithPlatform(*platform))
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return out.AppendIndex(all, annotations)
}

// imageFor returns the image for one platform. Its program runs as user 0 unless the pod says
// otherwise: on a control plane, only this user can read kubeadm's keys.
func (m *Image) imageFor(platform *v1.Platform, executable []byte) (v1.Image, error) {
	files, err := tarOf(m.Source.Time, []tarFile{{rootsPath, 0o644, m.Roots}, {programDir + "/" + m.Program, 0o755, executable}})
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: m.Source.Time.UTC()}
	labels := map[string]string{"org.opencontainers.image.version": m.Source.Version}
	if m.Source.Revision != "" {
		labels["org.opencontainers.image.revision"] = m.Source.Revision
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Env: []string{"PATH=/" + programDir}, Entrypoint: []string{m.Program}, Labels: labels},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "internal/build/release"}})
}

// readImage unpacks an image layout into a directory and returns its images, by platform. The
// images read from the directory.
func readImage(data []byte, dir string) (map[string]v1.Image, error) {
	files, err := readTar(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !filepath.IsLocal(file.name) {
			return nil, fmt.Errorf("image has a file %q outside of its directory", file.name)
		}
		target := filepath.Join(dir, file.name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		if err := os.WriteFile(target, file.data, 0o644); err != nil {
			return nil, fmt.Errorf("write file: %w", err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read image layout: %w", err)
	}
	if err := validate.Index(index); err != nil {
		return nil, fmt.Errorf("validate image: %w", err)
	}
	images := map[string]v1.Image{}
	return images, addImages(images, index)
}

// addImages adds the images of an index, and of the indexes in it.
func addImages(images map[string]v1.Image, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("read image index: %w", err)
	}
	for _, listed := range manifest.Manifests {
		if listed.MediaType.IsIndex() {
			inner, err := index.ImageIndex(listed.Digest)
			if err == nil {
				err = addImages(images, inner)
			}
			if err != nil {
				return err
			}
			continue
		}
		if images[listed.Platform.String()], err = index.Image(listed.Digest); err != nil {
			return fmt.Errorf("read image: %w", err)
		}
	}
	return nil
}
