package release_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/millrace/millrace/internal/build/release"
)

const (
	version = "v1.2.3"
	// here is this machine's platform where that is Linux.
	here = "linux/" + runtime.GOARCH
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// other returns another platform than here.
func other() string {
	if here == "linux/arm64" {
		return "linux/amd64"
	}
	return "linux/arm64"
}

// stub returns the name of the first stub's archive without its suffix.
func stub(platform string) string {
	return "millrace-" + version + "-" + strings.ReplaceAll(platform, "/", "-")
}

// stubs are two programs in testdata, of which one has an image.
func stubs() *release.Config {
	return &release.Config{
		Source:   release.Source{Root: "testdata", Version: version, Revision: strings.Repeat("ab", 20), Time: created},
		Programs: []release.Program{{Name: "millrace", Platforms: []string{here, other()}, InImage: true}, {Name: "millrace-tools", Platforms: []string{here}}},
		LDFlags:  "-s -w -X main.version=" + version,
		Roots:    []byte("roots"),
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

// makeRelease makes a release of stubs and returns its directory.
func makeRelease(t *testing.T, key crypto.Signer) string {
	t.Helper()
	cfg := stubs()
	cfg.Key, cfg.Out = key, filepath.Join(t.TempDir(), "release")
	check(t, release.Make(t.Context(), cfg))
	return cfg.Out
}

func readDir(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	files := map[string][]byte{}
	for _, entry := range entries {
		files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name()))
		check(t, err)
	}
	return files
}

// sums returns what SHA256SUMS must be.
func sums(files map[string][]byte) []byte {
	var lines bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, "SHA256SUMS") {
			fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(files[name]), name)
		}
	}
	return lines.Bytes()
}

// TestRelease makes a release, reads what it has as other tools do, and changes it.
func TestRelease(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	dir := makeRelease(t, key)
	files := readDir(t, dir)
	check(t, release.Verify(t.Context(), dir, key.Public()))
	t.Run("checksums", func(t *testing.T) {
		if !bytes.Equal(files["SHA256SUMS"], sums(files)) {
			t.Errorf("checksums are\n%s", files["SHA256SUMS"])
		}
	})
	t.Run("again", func(t *testing.T) { testAgain(t, files, key) })
	t.Run("provenance", func(t *testing.T) { testProvenance(t, files) })
	t.Run("SBOM", func(t *testing.T) { testSBOM(t, files) })
	t.Run("archive", func(t *testing.T) { testArchive(t, files) })
	t.Run("image", func(t *testing.T) { testImage(t, files) })
	t.Run("changes", func(t *testing.T) { testChanges(t, files, key) })
}

// testAgain makes the release once more, of the same bytes.
func testAgain(t *testing.T, first map[string][]byte, key crypto.Signer) {
	second := readDir(t, makeRelease(t, key))
	for _, file := range slices.Sorted(maps.Keys(first)) {
		if !bytes.Equal(first[file], second[file]) {
			t.Errorf("%s differs between two releases", file)
		}
	}
	if len(first) != len(second) {
		t.Errorf("releases have %d and %d files", len(first), len(second))
	}
}

// TestSignatures verifies releases by their key, by another one and by none.
func TestSignatures(t *testing.T) {
	t.Parallel()
	_, edwards, err := ed25519.GenerateKey(nil)
	check(t, err)
	signed, unsigned := makeRelease(t, edwards), makeRelease(t, nil)
	check(t, release.Verify(t.Context(), signed, edwards.Public()))
	check(t, release.Verify(t.Context(), signed, nil))
	check(t, release.Verify(t.Context(), unsigned, nil))
	for _, dir := range []string{signed, unsigned} {
		if err := release.Verify(t.Context(), dir, newKey(t).Public()); err == nil {
			t.Error("a release is verified by a key that did not sign it")
		}
	}
}

// testProvenance compares the provenance with the files.
func testProvenance(t *testing.T, files map[string][]byte) {
	want := []string{"millrace-" + version + "-image.tar"}
	for _, program := range []string{stub(here), stub(other()), "millrace-tools" + strings.TrimPrefix(stub(here), "millrace")} {
		want = append(want, program+".tar.gz", program+".cdx.json")
	}
	slices.Sort(want)
	var statement struct {
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
			RunDetails struct {
				Builder struct {
					ID      string
					Version map[string]string
				}
			}
		}
	}
	check(t, json.Unmarshal(files["provenance.json"], &statement))
	var subjects []string
	for _, subject := range statement.Subject {
		subjects = append(subjects, subject.Name)
		if sum := fmt.Sprintf("%x", sha256.Sum256(files[subject.Name])); subject.Digest["sha256"] != sum {
			t.Errorf("%s has the digest %s in the provenance, and %s", subject.Name, subject.Digest["sha256"], sum)
		}
	}
	if !slices.Equal(subjects, want) {
		t.Errorf("provenance is about\n%v, want\n%v", subjects, want)
	}
	predicate := statement.Predicate
	if statement.PredicateType != "https://slsa.dev/provenance/v1" || predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != stubs().Source.Revision ||
		predicate.RunDetails.Builder.ID == "" || predicate.RunDetails.Builder.Version["go"] != runtime.Version() {
		t.Errorf("provenance %s", files["provenance.json"])
	}
}

// testSBOM decodes an SBOM and looks for the module that the stub links.
func testSBOM(t *testing.T, files map[string][]byte) {
	var bom cdx.BOM
	check(t, cdx.NewBOMDecoder(bytes.NewReader(files[stub(here)+".cdx.json"]), cdx.BOMFileFormatJSON).Decode(&bom))
	linked := map[string]cdx.Component{}
	for _, module := range *bom.Components {
		linked[module.Name] = module
	}
	if program := bom.Metadata.Component; program.Name != "millrace" || program.Version != version || linked["std"].Version != strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("SBOM is of %+v with %+v", program, linked["std"])
	}
	if sync := linked["golang.org/x/sync"]; sync.Version == "" || sync.PackageURL != "pkg:golang/golang.org/x/sync@"+sync.Version || len((*sync.Hashes)[0].Value) != 64 {
		t.Errorf("SBOM has the linked module as %+v", sync)
	}
}

// testArchive unpacks an archive and runs the program in it.
func testArchive(t *testing.T, files map[string][]byte) {
	packed, err := gzip.NewReader(bytes.NewReader(files[stub(here)+".tar.gz"]))
	check(t, err)
	tree := unpack(t, packed)
	if len(tree) != 3 || tree[stub(here)+"/README.md"] == nil || tree[stub(here)+"/LICENSE"] == nil {
		t.Errorf("archive has the files %v", slices.Sorted(maps.Keys(tree)))
	}
	// Files that the archive lacks are read where the version's are.
	const links = "![a picture](https://github.com/millrace/millrace/raw/v1.2.3/docs/a.svg) and " +
		"[a guide](https://github.com/millrace/millrace/blob/v1.2.3/docs/guides/analyze.md#try-it), [here](#below), [elsewhere](https://example.com/a)."
	if readme := string(tree[stub(here)+"/README.md"].data); !strings.Contains(readme, links) {
		t.Errorf("README is %q, want it with %q", readme, links)
	}
	run(t, tree[stub(here)+"/millrace"])
}

// testImage unpacks an image of two platforms as a container runtime does, and runs what its
// configuration names.
func testImage(t *testing.T, files map[string][]byte) {
	listed, index := readImage(t, files["millrace-"+version+"-image.tar"])
	if name := listed.Annotations["io.containerd.image.name"]; name != "docker.io/library/millrace:"+version {
		t.Errorf("image has the name %q", name)
	}
	all, err := index.ImageIndex(listed.Digest)
	check(t, err)
	manifest, err := all.IndexManifest()
	check(t, err)
	var found []string
	for _, listed := range manifest.Manifests {
		found = append(found, listed.Platform.String())
		image, err := all.Image(listed.Digest)
		check(t, err)
		config, err := image.ConfigFile()
		check(t, err)
		tree := unpack(t, mutate.Extract(image))
		program := tree[strings.TrimPrefix(config.Config.Env[0], "PATH=/")+"/"+config.Config.Entrypoint[0]]
		if config.Architecture != listed.Platform.Architecture || program == nil || string(tree["etc/ssl/certs/ca-certificates.crt"].data) != "roots" {
			t.Errorf("image for %s has configuration %+v and files %v", listed.Platform, config, slices.Sorted(maps.Keys(tree)))
		}
		if listed.Platform.String() == here {
			run(t, program)
		}
	}
	if !slices.Equal(found, slices.Sorted(slices.Values([]string{here, other()}))) {
		t.Errorf("image is for %v", found)
	}
}

// TestImageOfOnePlatform makes what `make image` makes: no index of platforms is in it.
func TestImageOfOnePlatform(t *testing.T) {
	t.Parallel()
	image := &release.Image{Source: release.Source{Version: version, Time: created}, Program: "millrace", Executables: map[string][]byte{other(): []byte("program")}, Roots: []byte("roots"), Name: "example/millrace:1"}
	data, err := image.Tar()
	check(t, err)
	listed, _ := readImage(t, data)
	if !listed.MediaType.IsImage() || listed.Platform.String() != other() || listed.Annotations["io.containerd.image.name"] != "example/millrace:1" {
		t.Errorf("layout lists %+v", listed)
	}
}

// testChanges changes files of a release, which is then refused.
func testChanges(t *testing.T, made map[string][]byte, key crypto.Signer) {
	image, archive := "millrace-"+version+"-image.tar", stub(here)+".tar.gz"
	flip := func(name string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			files[name] = bytes.Clone(files[name])
			files[name][len(files[name])/2] ^= 1
		}
	}
	for name, test := range map[string]struct {
		change func(map[string][]byte)
		// listed says that provenance and checksums are changed too, and summed that only
		// the latter are, as somebody can who has no key.
		listed, summed bool
		want           string
	}{
		"archive":                 {change: flip(archive), want: archive + " is not the file that SHA256SUMS lists"},
		"archive and its sum":     {change: flip(archive), summed: true, want: archive + " is not the file that provenance.json lists"},
		"file more":               {change: func(files map[string][]byte) { files["more"] = nil }, summed: true, want: "more is not the file that provenance.json lists"},
		"file less":               {change: func(files map[string][]byte) { delete(files, image) }, want: "SHA256SUMS lists files that are not there: " + image},
		"file less and its sum":   {change: func(files map[string][]byte) { delete(files, image) }, summed: true, want: "provenance.json lists files that are not there: " + image},
		"SBOM of another program": {change: func(files map[string][]byte) { files[stub(here)+".cdx.json"] = files[stub(other())+".cdx.json"] }, listed: true, want: "describes another program"},
		"SBOM of no program":      {change: func(files map[string][]byte) { files[stub(here)+".cdx.json"] = []byte("{}") }, listed: true, want: "SBOM names no modules"},
		"image with another byte": {change: flip(image), listed: true, want: image},
		"image of another program": {change: func(files map[string][]byte) {
			image := &release.Image{Program: "millrace", Executables: map[string][]byte{here: []byte("another")}, Name: "example/millrace:1"}
			data, err := image.Tar()
			check(t, err)
			files["millrace-"+version+"-image.tar"] = data
		}, listed: true, want: "has another program than the archive"},
		"no statement": {change: func(files map[string][]byte) { files["provenance.json"] = []byte("{}") }, summed: true, want: "validate statement"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(made)
			test.change(files)
			if test.listed {
				for name := range made {
					files["provenance.json"] = bytes.ReplaceAll(files["provenance.json"], fmt.Appendf(nil, "%x", sha256.Sum256(made[name])), fmt.Appendf(nil, "%x", sha256.Sum256(files[name])))
				}
			}
			if test.listed || test.summed {
				files["SHA256SUMS"] = sums(files)
			}
			dir := t.TempDir()
			for name, data := range files {
				check(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
			}
			if err := release.Verify(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if err := release.Verify(t.Context(), dir, key.Public()); err == nil {
				t.Error("the release is verified by its key")
			}
		})
	}
}
