// Package image makes a container image of the program without a container engine: an OCI
// image layout in one tar file, which container runtimes and registries' tools import.
//
//	oci-layout, index.json ──► manifest ──► configuration
//	                                  └──► layer: the program and the roots of trust
//
// The image is the same, byte for byte, for the same program and roots: files have one
// time and one owner, and no name of the machine is in it. The caller builds the program
// for the image's platform. The package pushes nothing.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Config says what the image holds. All fields are needed.
type Config struct {
	// Program is the executable, and Roots are the certificates that webhooks and identity
	// providers are verified by, in PEM form.
	Program, Roots []byte
	// Arch is the architecture as Go names it.
	Arch string
	// Name is the image's full name with a tag. Runtimes import the image under it.
	Name string
	// Version is the program's.
	Version string
	// Created is the time of all files.
	Created time.Time
}

const (
	programPath = "usr/local/bin/millrace"
	rootsPath   = "etc/ssl/certs/ca-certificates.crt"

	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// The types below are those of the OCI image specification 1.1.

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type configuration struct {
	platform
	Created time.Time `json:"created"`
	Config  process   `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
}

type process struct {
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint"`
	Labels     map[string]string `json:"Labels"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// Write writes the image as a tar file.
func Write(to io.Writer, cfg *Config) error {
	plain, err := cfg.layer()
	if err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	packed, err := compress(plain)
	if err != nil {
		return fmt.Errorf("compress layer: %w", err)
	}
	out := &layout{tar: tar.NewWriter(to), created: cfg.Created}
	layer := out.addBlob(layerType, packed)
	described := out.addJSON(configType, cfg.configuration(digest(plain)))
	listed := out.addJSON(manifestType, manifest{SchemaVersion: 2, MediaType: manifestType, Config: described, Layers: []descriptor{layer}})
	listed.Platform = &platform{cfg.Arch, "linux"}
	// The first is what containerd names the image by, the second is the specification's.
	listed.Annotations = map[string]string{"io.containerd.image.name": cfg.Name, "org.opencontainers.image.ref.name": cfg.Name}
	out.addDocument("index.json", index{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{listed}})
	out.addDocument("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"})
	if out.err == nil {
		out.err = out.tar.Close()
	}
	return out.err
}

// configuration says how to run the program. It runs as user 0 unless the pod says
// otherwise: on a control plane, kubeadm's keys are readable to nobody else.
func (cfg *Config) configuration(diffID string) configuration {
	return configuration{
		platform: platform{cfg.Arch, "linux"}, Created: cfg.Created.UTC(),
		Config: process{
			Env: []string{"PATH=/" + path.Dir(programPath)}, Entrypoint: []string{path.Base(programPath)},
			Labels: map[string]string{"org.opencontainers.image.version": cfg.Version},
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{diffID}},
	}
}

// layer is the file system.
func (cfg *Config) layer() ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: cfg.Created, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
	}
	for _, file := range []struct {
		name string
		mode int64
		data []byte
	}{{rootsPath, 0o644, cfg.Roots}, {programPath, 0o755, cfg.Program}} {
		if err := addFile(w, tar.Header{Name: file.name, Mode: file.mode, ModTime: cfg.Created}, file.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func addFile(w *tar.Writer, header tar.Header, data []byte) error {
	header.Typeflag, header.Size, header.Format = tar.TypeReg, int64(len(data)), tar.FormatUSTAR
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func compress(plain []byte) ([]byte, error) {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// layout writes the files of an image layout. Its methods do nothing after an error.
type layout struct {
	tar     *tar.Writer
	created time.Time
	err     error
}

func (l *layout) add(name string, data []byte) {
	if l.err == nil {
		l.err = addFile(l.tar, tar.Header{Name: name, Mode: 0o644, ModTime: l.created}, data)
	}
}

// addBlob adds content under its digest, and describes it.
func (l *layout) addBlob(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	l.add("blobs/sha256/"+d.Digest[len("sha256:"):], data)
	return d
}

func (l *layout) addJSON(mediaType string, document any) descriptor {
	return l.addBlob(mediaType, l.encode(document))
}

func (l *layout) addDocument(name string, document any) { l.add(name, l.encode(document)) }

func (l *layout) encode(document any) []byte {
	data, err := json.Marshal(document)
	if l.err == nil && err != nil {
		l.err = fmt.Errorf("encode: %w", err)
	}
	return data
}
