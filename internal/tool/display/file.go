package display

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/conn/datadir"
)

// writeWhole writes a file that did not exist or is regular in one step, so that a full disk
// leaves no half of it. A pipe, a device or the target of a symbolic link is written in place.
func writeWhole(name string, content []byte) error {
	var err error
	if isReplaced(name) {
		err = datadir.ReplaceFile(name, 0o644, func(out io.Writer) error {
			_, err := out.Write(content)
			return err
		})
	} else {
		err = writeInPlace(name, content)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// isReplaced reports whether writeWhole creates or replaces a file. Nothing may take the place
// of a pipe, a device or a symbolic link.
func isReplaced(name string) bool {
	info, err := os.Lstat(name)
	return err != nil || info.Mode().IsRegular()
}

// writeInPlace truncates and writes an existing file, device or pipe.
func writeInPlace(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// CheckFile returns an error if WritePage could not write a file, so that a command says so
// before it starts work that takes long. An empty name is not a file, and not an error. CheckFile
// leaves the file as it is.
func CheckFile(name string) error {
	if name == "" {
		return nil
	}
	check := checkInPlace
	if isReplaced(name) {
		check = checkReplaced
	}
	if err := check(name); err != nil {
		return fmt.Errorf("write %s: %w: give another file", name, err)
	}
	return nil
}

// checkReplaced returns an error if no file can be created beside a file.
func checkReplaced(name string) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) { // without the temporary name
		return fmt.Errorf("create a file in %s: %w", filepath.Dir(name), failed.Err)
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// checkInPlace returns an error if a link leads nowhere, to a directory, or to a file that may
// not be written. It does not open a pipe, which would wait for its reader.
func checkInPlace(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		return nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}
