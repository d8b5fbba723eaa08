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
	// Size is the size of the file in bytes, before decompression. 0: unknown.
	Size int64 `json:"size,omitempty"`
}

// Expand returns the inputs that paths stand for: files, directories with all files below
// them, and Stdin. Stdin is the first. The files follow in the order of their names, which is the
// order of rotated logs.
//
// Links to files are followed, and a path may itself be a link to a directory. In directories,
// Expand leaves out links to nothing, and entries that are not regular files.
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
		if !info.IsDir() { // a pipe, too
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

// expandDirectory returns the files below a directory. Their names start with path, even if path
// is a link.
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

// Options says how logs are read.
type Options struct {
	Wrapper Wrapper
	// KeepGroups says that Event.Groups is wanted.
	KeepGroups bool
}

// Read calls each for every event of an input that has a time. Read recognizes compressed input,
// and the coding of its characters, by the first bytes. About once per megabyte it calls progress
// with the number of bytes of the file that were read so far.
//
// Records that cannot be read are in the counts, and are not an error. An error means that the file
// could not be opened or read.
func (in Input) Read(ctx context.Context, stdin io.Reader, o Options, each func(*Event), progress func(readBytes int64)) (Counts, error) {
	var file io.Reader = &pendingReader{ctx: ctx, reader: stdin}
	if in.Name != Stdin {
		f, err := os.Open(in.Name)
		if err != nil {
			return Counts{}, fmt.Errorf("open log: %w", err)
		}
		defer f.Close()
		file = f
	}
	text, closeText, err := unpack(&countingReader{ctx: ctx, reader: file, progress: progress})
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

// unpack returns the text of a source: decompressed, and as UTF-8 if it starts with a byte order
// mark. The caller must call closeText at the end.
func unpack(source io.Reader) (text io.Reader, closeText func(), err error) {
	text, closeText = source, func() {}
	buffered := bufio.NewReaderSize(source, 256<<10)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		switch unpacked, err := gzip.NewReader(buffered); {
		case err == nil:
			text = unpacked
		case errors.Is(err, context.Canceled):
			return nil, nil, err
		default: // the header is incomplete
			text = failingReader{errPacked}
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

// withoutMark returns a reader of text as UTF-8, without its byte order mark.
func withoutMark(text *bufio.Reader) io.Reader {
	head, _ := text.Peek(3)
	for _, mark := range []string{"\ufeff", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(head, []byte(mark)) {
			return transform.NewReader(text, unicode.BOMOverride(transform.Nop))
		}
	}
	return text
}

// errPacked says that the rest of compressed data cannot be read.
var errPacked = errors.New("compressed data is cut off or broken")

// packedReader returns errPacked in place of any error of a decompressor.
type packedReader struct{ io.Reader }

// Read implements io.Reader.
func (r packedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		err = errPacked
	}
	return n, err
}

// failingReader returns its error from each read.
type failingReader struct{ err error }

// Read implements io.Reader.
func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// pendingReader ends with its context, even while a read waits at a pipe or a terminal. The
// goroutine of the read then stays until the read returns, or until the process ends.
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

// countingReader counts bytes, and ends with its context.
type countingReader struct {
	ctx    context.Context
	reader io.Reader
	count  int64
	// progress is called with count about once per megabyte.
	progress func(readBytes int64)
}

// Read implements io.Reader.
func (r *countingReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.reader.Read(b)
	before := r.count
	if r.count += int64(n); before>>20 != r.count>>20 {
		r.progress(r.count)
	}
	return n, err
}
