package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Verify returns an error unless a directory has a whole release. Its files must be exactly the
// files that SHA256SUMS and the provenance list. Each SBOM must describe the program in its
// archive, and images must have the archives' programs. Without a key Verify checks no signatures.
func Verify(ctx context.Context, dir string, key crypto.PublicKey) error {
	files, err := readFiles(dir)
	if err != nil {
		return err
	}
	if key != nil {
		if err := verifySignatures(ctx, files, key); err != nil {
			return err
		}
	}
	sums, err := readChecksums(files[checksumsFile])
	if err != nil {
		return err
	}
	if err := compare(checksumsFile, sums, files, checksumsFile, signatureFile); err != nil {
		return err
	}
	subjects, err := readProvenance(files[provenanceFile])
	if err != nil {
		return err
	}
	if err := compare(provenanceFile, subjects, files, checksumsFile, signatureFile, provenanceFile, bundleFile); err != nil {
		return err
	}
	executables, err := verifyArchives(files)
	if err != nil {
		return err
	}
	return verifyImages(files, executables)
}

// readFiles returns the files of a directory by name.
func readFiles(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read release: %w", err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			return nil, fmt.Errorf("read release: %w", err)
		}
	}
	return files, nil
}

// readChecksums returns the digests in a checksum file, by the names of files.
func readChecksums(data []byte) (map[string]string, error) {
	sums := map[string]string{}
	for line := range strings.Lines(string(data)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			return nil, fmt.Errorf("%s has the line %q", checksumsFile, line)
		}
		sums[name] = sum
	}
	return sums, nil
}

// compare returns an error unless files, apart from those named in without, are the files that
// a list names, with its digests.
func compare(list string, digests map[string]string, files map[string][]byte, without ...string) error {
	rest := maps.Clone(digests)
	for name, data := range files {
		if slices.Contains(without, name) {
			continue
		}
		if rest[name] != digest(data) {
			return fmt.Errorf("%s is not the file that %s lists", name, list)
		}
		delete(rest, name)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s lists files that are not there: %s", list, strings.Join(slices.Sorted(maps.Keys(rest)), ", "))
	}
	return nil
}

// verifyArchives returns the executables in archives, by the names of archives without suffix.
// Each executable must be the one that the archive's SBOM describes.
func verifyArchives(files map[string][]byte) (map[string][]byte, error) {
	executables := map[string][]byte{}
	for name, data := range files {
		base, ok := strings.CutSuffix(name, archiveSuffix)
		if !ok {
			continue
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
		inside, err := readTar(unpacked)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
		executable, err := onlyExecutable(inside)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
		described, err := readSBOM(files[base+sbomSuffix])
		if err != nil {
			return nil, fmt.Errorf("read SBOM of %s: %w", name, err)
		}
		if described != digest(executable) {
			return nil, fmt.Errorf("%s describes another program than the one in %s", base+sbomSuffix, name)
		}
		executables[base] = executable
	}
	return executables, nil
}

// onlyExecutable returns the content of the only executable file. Another number of executable
// files is an error.
func onlyExecutable(files []tarFile) ([]byte, error) {
	files = slices.DeleteFunc(files, func(f tarFile) bool { return f.mode&0o111 == 0 })
	if len(files) != 1 {
		return nil, fmt.Errorf("archive has %d programs, and not one", len(files))
	}
	return files[0].data, nil
}

// verifyImages returns an error unless each image has, for every platform, the executable of the
// platform's archive.
func verifyImages(files, executables map[string][]byte) error {
	for name, data := range files {
		base, ok := strings.CutSuffix(name, imageSuffix)
		if !ok {
			continue
		}
		if err := verifyImage(data, base, executables); err != nil {
			return fmt.Errorf("verify %s: %w", name, err)
		}
	}
	return nil
}

// verifyImage checks one image. base is the name of the program's archives without platform.
func verifyImage(data []byte, base string, executables map[string][]byte) (err error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	images, err := readImage(data, dir)
	if err != nil {
		return err
	}
	if len(images) == 0 {
		return errors.New("the layout has no image")
	}
	for platform, image := range images {
		executable, err := entrypoint(image)
		if err != nil {
			return fmt.Errorf("image for %s: %w", platform, err)
		}
		if !bytes.Equal(executable, executables[base+"-"+strings.ReplaceAll(platform, "/", "-")]) {
			return fmt.Errorf("image for %s has another program than the archive", platform)
		}
	}
	return nil
}

// entrypoint returns the content of the file that an image runs.
func entrypoint(image v1.Image) ([]byte, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	unpacked := mutate.Extract(image)
	defer func() { _ = unpacked.Close() }()
	files, err := readTar(unpacked)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, unpacked); err != nil {
		return nil, err
	}
	name := path.Join(strings.TrimPrefix(config.Config.Env[0], "PATH=/"), config.Config.Entrypoint[0])
	for _, file := range files {
		if file.name == name {
			return file.data, nil
		}
	}
	return nil, fmt.Errorf("the image does not have /%s", name)
}
