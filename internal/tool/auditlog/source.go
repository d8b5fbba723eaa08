package auditlog

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Stdin is the name of the input that is the standard input.
const Stdin = "-"

// Input is one file, or the standard input.
type Input struct {
	Name string `json:"name"`
	// Size is that of the file, compressed as it is. It is 0 if it is not known.
	Size int64 `json:"size,omitempty"`
}

// Expand returns the inputs that paths stand for: files, directories with all files below
// them, and Stdin. They are in the order of their names, which is the order of rotated logs,
// whatever the order of paths is; Stdin is the first.
//
// Links to files are followed, and a path may itself be a link to a directory. In
// directories, links to nothing and what is no regular file are left out.
func Expand(paths []string) ([]Input, error) {
	var all []Input
	for _, path := range paths {
		if path == Stdin {
			all = append(all, Input{Name: Stdin})
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("list logs: %w", err)
		}
		if !info.IsDir() { // also a pipe, if it is named
			all = append(all, Input{Name: path, Size: info.Size()})
			continue
		}
		files, err := expandDirectory(path)
		if err != nil {
			return nil, fmt.Errorf("list logs: %w", err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("list logs: %s has no files", path)
		}
		all = append(all, files...)
	}
	slices.SortStableFunc(all, func(a, b Input) int {
		return cmp.Or(cmp.Compare(stdinFirst(a), stdinFirst(b)), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

func stdinFirst(in Input) int {
	if in.Name == Stdin {
		return 0
	}
	return 1
}

// expandDirectory returns the files of a directory. Their names begin with path, also if
// that is a link.
func expandDirectory(path string) (files []Input, err error) {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(name) // follows links
		switch isLink := entry.Type()&fs.ModeSymlink != 0; {
		case isLink && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP)):
			return nil
		case err != nil || !info.Mode().IsRegular():
			return err
		}
		relative, err := filepath.Rel(root, name)
		files = append(files, Input{Name: filepath.Join(path, relative), Size: info.Size()})
		return err
	})
	return files, err
}

// Options say how logs are read.
type Options struct {
	// Form is "" for FormAny.
	Form Form
	// KeepGroups sets Event.Groups.
	KeepGroups bool
}

// Read calls each for every event of an input that has a time. Compressed input and the
// coding of its characters are recognized by the first bytes. read is called with the number
// of bytes of the file that were read so far, about once a megabyte.
//
// What cannot be read is in the counts. The error is one of the file.
func (in Input) Read(ctx context.Context, stdin io.Reader, o Options, each func(*Event), read func(int64)) (Counts, error) {
	var file io.Reader = &pendingReader{ctx: ctx, reader: stdin}
	if in.Name != Stdin {
		f, err := os.Open(in.Name)
		if err != nil {
			return Counts{}, fmt.Errorf("open log: %w", err)
		}
		defer f.Close()
		file = f
	}
	text, closeText, err := unpack(&countingReader{ctx: ctx, reader: file, read: read})
	if err != nil {
		return Counts{}, fmt.Errorf("read log %s: %w", in.Name, err)
	}
	defer closeText()
	r := newReader(text, o, each)
	r.readAll()
	if r.err != nil {
		return r.counts, fmt.Errorf("read log %s after %d lines: %w", in.Name, r.counts.Lines, r.err)
	}
	return r.counts, nil
}

// unpack undoes compression, and makes UTF-8 of text that begins with a byte order mark.
func unpack(source io.Reader) (text io.Reader, closeText func(), err error) {
	text, closeText = source, func() {}
	buffered := bufio.NewReaderSize(source, 256<<10)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		if text, err = gzip.NewReader(buffered); err != nil {
			return nil, nil, err
		}
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unpacked, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		text, closeText = unpacked, unpacked.Close
	default:
		return withoutMark(buffered), closeText, nil
	}
	return withoutMark(bufio.NewReaderSize(packedReader{text}, 256<<10)), closeText, nil
}

// withoutMark reads text as its byte order mark says, which is left out.
func withoutMark(text *bufio.Reader) io.Reader {
	head, _ := text.Peek(3)
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(head, []byte(mark)) {
			return transform.NewReader(text, unicode.BOMOverride(transform.Nop))
		}
	}
	return text
}

// errPacked is the end of compressed data that cannot be read further.
var errPacked = errors.New("compressed data is cut off or broken")

// packedReader has errPacked in place of any error of compressed data.
type packedReader struct{ io.Reader }

// Read implements io.Reader.
func (r packedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		err = errPacked
	}
	return n, err
}

// pendingReader ends when its context does, also while a read waits for more, as at a pipe or
// a terminal. What it waits for then is left to the end of the process.
type pendingReader struct {
	ctx    context.Context
	reader io.Reader
	buffer []byte
	reads  chan readResult
}

type readResult struct {
	n   int
	err error
}

// Read implements io.Reader.
func (r *pendingReader) Read(b []byte) (int, error) {
	if r.reads == nil {
		r.reads, r.buffer = make(chan readResult, 1), make([]byte, 256<<10)
	}
	part := r.buffer[:min(len(b), len(r.buffer))]
	go func() {
		n, err := r.reader.Read(part)
		r.reads <- readResult{n, err}
	}()
	select {
	case got := <-r.reads:
		return copy(b, part[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// countingReader counts what is read, and ends when its context does.
type countingReader struct {
	ctx    context.Context
	reader io.Reader
	count  int64
	read   func(int64)
}

// Read implements io.Reader.
func (r *countingReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.reader.Read(b)
	before := r.count
	if r.count += int64(n); before>>20 != r.count>>20 {
		r.read(r.count)
	}
	return n, err
}
