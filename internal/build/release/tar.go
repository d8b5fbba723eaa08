package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// tarFile is a regular file in a tar file.
type tarFile struct {
	name string
	mode int64
	data []byte
}

// tarOf returns a tar file with files, each after its directories. All entries have the same
// time and no owner.
func tarOf(modified time.Time, files []tarFile) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{".": true} // directories
	var makeDir func(string) error
	makeDir = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		return errors.Join(makeDir(path.Dir(dir)), w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: modified, Format: tar.FormatUSTAR}))
	}
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(file.data)), ModTime: modified, Format: tar.FormatUSTAR}
		if err := errors.Join(makeDir(path.Dir(file.name)), w.WriteHeader(header)); err != nil {
			return nil, fmt.Errorf("write tar header: %w", err)
		}
		if _, err := w.Write(file.data); err != nil {
			return nil, fmt.Errorf("write tar file: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write tar file: %w", err)
	}
	return buf.Bytes(), nil
}

// archive returns a compressed tar file. The header of gzip has neither a name nor a time.
func archive(modified time.Time, files []tarFile) ([]byte, error) {
	plain, err := tarOf(modified, files)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("compress archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress archive: %w", err)
	}
	return buf.Bytes(), nil
}

// readTar returns the regular files of a tar file.
func readTar(from io.Reader) ([]tarFile, error) {
	var files []tarFile
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read tar file: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("read tar file: %w", err)
		}
		files = append(files, tarFile{header.Name, header.Mode, data})
	}
}
