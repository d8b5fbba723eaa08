package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/feed"
)

const (
	suffix               = ".checkpoint"
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// Dir is a directory of checkpoints, one for each name. One process uses it at a time.
type Dir struct{ path string }

// OpenDir opens the directory at a path, and makes it if it is missing.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, fmt.Errorf("make directory of checkpoints: %w", err)
	}
	return &Dir{path}, nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name+suffix) }

// Open opens the checkpoint of a name. It returns nil if there is none. The error for a
// checkpoint of another source is ErrSource. The caller closes the checkpoint.
func (d *Dir) Open(name, source string) (feed.Checkpoint, error) {
	f, err := openFile(d.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.file(name), err)
	}
	if f.header.Source != source {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w: %q, and not %q", d.file(name), ErrSource, f.header.Source, source)
	}
	return f, nil
}

// Write replaces the checkpoint of a name, and returns the size of the new one in bytes. After
// an error the former checkpoint stays.
func (d *Dir) Write(ctx context.Context, name string, o *Order) (size int64, err error) {
	err = datadir.ReplaceFile(d.file(name), fileMode, func(out io.Writer) error {
		counted := &countingWriter{out: out}
		defer func() { size = counted.written }()
		return write(ctx, counted, o)
	})
	if err != nil {
		return 0, fmt.Errorf("write checkpoint %s: %w", name, err)
	}
	return size, nil
}

// Names returns the names that have a checkpoint.
func (d *Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("read directory of checkpoints: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), suffix); ok && entry.Type().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
}

// Remove removes the checkpoint of a name, if there is one.
func (d *Dir) Remove(name string) error {
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove checkpoint: %w", err)
	}
	return nil
}

type countingWriter struct {
	out     io.Writer
	written int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	w.written += int64(n)
	return n, err
}
