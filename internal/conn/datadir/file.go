package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// readOptional returns a file's content, or nil if there is no such file. The content
// of an empty file is an empty slice that is not nil.
func readOptional(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	switch {
	case err == nil && data == nil:
		return []byte{}, nil
	case err == nil:
		return data, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	return nil, newFailure(ErrBadState, err, "cannot read %s (%v): make it readable to the user that runs millrace, or restore it", file, cause(err))
}

// writeFile replaces a file, as ReplaceFile does, by data.
func writeFile(file string, data []byte, mode fs.FileMode) error {
	return ReplaceFile(file, mode, func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	})
}

// ReplaceFile replaces a file in one step by what write writes: after a crash the file is
// either the old or the new one. The caller holds the directory's lock, so the name of the
// temporary file is fixed, and one that a crash left is replaced.
func ReplaceFile(file string, mode fs.FileMode, write func(io.Writer) error) error {
	temp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".tmp")
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove temporary file: %w", err)
	}
	if err := writeTemp(temp, mode, write); err != nil {
		os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, file); err != nil {
		os.Remove(temp)
		return fmt.Errorf("rename temporary file: %w", err)
	}
	return syncDir(filepath.Dir(file))
}

// writeTemp creates a file and writes it to the disk.
func writeTemp(temp string, mode fs.FileMode, write func(io.Writer) error) error {
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("create temporary file: %w", err)
	}
	if err := write(out); err != nil {
		out.Close()
		return fmt.Errorf("write temporary file: %w", err)
	}
	if err := out.Sync(); err != nil {
		out.Close()
		return fmt.Errorf("sync temporary file: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("close temporary file: %w", err)
	}
	return nil
}

// syncDir writes a directory's entries to the disk.
func syncDir(dir string) error {
	handle, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer handle.Close()
	if err := handle.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
