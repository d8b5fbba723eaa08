package auditlog

import (
	"bufio"
	"bytes"
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
)

// Stdin is the name of the input that is the standard input.
const Stdin = "-"

const (
	// firstBuffer is the buffer for lines. maxLine bounds it: longer lines, which have
	// objects of many megabytes, are left out.
	firstBuffer = 1 << 20
	maxLine     = 16 << 20
)

// Input is one file, or the standard input.
type Input struct {
	Name string `json:"name"`
	// Size is that of the file, compressed as it is. It is 0 if it is not known.
	Size int64 `json:"size,omitempty"`
}

// Counts say what was read of an input.
type Counts struct {
	// Bytes are those of the lines, uncompressed.
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
	// LongLines were longer than 16 MiB, and were left out.
	LongLines int64 `json:"longLines,omitempty"`
	// CutOff says that the file ends in the middle of its compressed data.
	CutOff bool `json:"cutOff,omitempty"`
}

// Expand returns the inputs that paths stand for: files, directories with all files below
// them in the order of their names, and Stdin. That order is the order of rotated logs.
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
	return all, nil
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

// Read calls each for every line of an input, without its end. The line is valid until each
// returns. Compressed input is recognized by its first bytes. read is called with the number
// of bytes of the file that were read so far, about once a megabyte.
func (in Input) Read(ctx context.Context, stdin io.Reader, each func(line []byte), read func(int64)) (Counts, error) {
	var file io.Reader = &pendingReader{ctx: ctx, reader: stdin}
	if in.Name != Stdin {
		f, err := os.Open(in.Name)
		if err != nil {
			return Counts{}, fmt.Errorf("open log: %w", err)
		}
		defer f.Close()
		file = f
	}
	source := &countingReader{ctx: ctx, reader: file, read: read}
	buffered := bufio.NewReaderSize(source, 256<<10)
	var text io.Reader = buffered
	if head, _ := buffered.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			return Counts{}, fmt.Errorf("read log %s: %w", in.Name, err)
		}
		text = unpacked
	}
	c, err := readLines(text, each)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		c.CutOff, err = true, nil
	case err != nil:
		err = fmt.Errorf("read log %s after %d lines: %w", in.Name, c.Lines, err)
	}
	return c, err
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

// readLines splits text into lines. It holds one buffer, which grows up to maxLine.
func readLines(text io.Reader, each func(line []byte)) (c Counts, err error) {
	buffer := make([]byte, firstBuffer)
	filled, tooLong := 0, false
	for {
		n, err := text.Read(buffer[filled:])
		c.Bytes += int64(n)
		// Only the new bytes can hold the end of the first line.
		start, search := 0, filled
		filled += n
		for {
			i := bytes.IndexByte(buffer[search:filled], '\n')
			if i < 0 {
				break
			}
			c.line(buffer[start:search+i], tooLong, each)
			start, tooLong = search+i+1, false
			search = start
		}
		filled = copy(buffer, buffer[start:filled])
		if err != nil {
			if filled > 0 {
				c.line(buffer[:filled], tooLong, each)
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return c, err
		}
		switch {
		case filled < len(buffer):
		case len(buffer) < maxLine:
			buffer = slices.Grow(buffer, len(buffer))[:2*len(buffer)]
		default:
			filled, tooLong = 0, true
		}
	}
}

// line counts a line and gives it to each. Empty ones are left out.
func (c *Counts) line(line []byte, tooLong bool, each func([]byte)) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	switch {
	case tooLong:
		c.LongLines++
	case len(line) > 0:
		c.Lines++
		each(line)
	}
}
