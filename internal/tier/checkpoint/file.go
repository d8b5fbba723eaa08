package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/s2"

	"github.com/millrace/millrace/internal/feed"
)

// File is a checkpoint that is open. It is a feed.Checkpoint.
type File struct {
	file *os.File
	// in reads file, and adds what it reads to sum.
	in     io.Reader
	sum    hash.Hash
	header Header
	// packed and plain are the buffers of the last block, as in the file and unpacked.
	packed, plain []byte
}

var _ feed.Checkpoint = (*File)(nil)

// openFile opens a checkpoint and reads its header. The digest is checked by Load.
func openFile(name string) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, sum: sha256.New()}
	f.in = io.TeeReader(bufio.NewReaderSize(file, bufferBytes), f.sum)
	if err := f.readHeader(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) readHeader() error {
	begins := make([]byte, len(magic))
	if _, err := io.ReadFull(f.in, begins); err != nil || string(begins) != magic {
		return ErrFormat
	}
	block, err := f.nextBlock()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(block, &f.header); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// nextBlock reads a block and returns it unpacked. It returns nil at the end, if the digest is
// right. The block is valid until the next call.
func (f *File) nextBlock() ([]byte, error) {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(f.in, length[:]); err != nil {
		return nil, damage(err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 {
		return nil, f.checkEnd()
	}
	if n > maxBlockBytes {
		return nil, ErrDamaged
	}
	if uint32(cap(f.packed)) < n {
		f.packed = make([]byte, n)
	}
	f.packed = f.packed[:n]
	if _, err := io.ReadFull(f.in, f.packed); err != nil {
		return nil, damage(err)
	}
	if size, err := s2.DecodedLen(f.packed); err != nil || size > maxBlockBytes || size == 0 {
		return nil, ErrDamaged
	}
	var err error
	if f.plain, err = s2.Decode(f.plain[:cap(f.plain)], f.packed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return f.plain, nil
}

// damage returns the error of a file that ends early, or that cannot be read.
func damage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends early", ErrDamaged)
	}
	return fmt.Errorf("read checkpoint: %w", err)
}

// checkEnd compares the digest at the end of the file. Nothing may follow the digest.
func (f *File) checkEnd() error {
	want := f.sum.Sum(nil)
	rest, err := io.ReadAll(io.LimitReader(f.in, int64(len(want))+1))
	if err != nil {
		return damage(err)
	}
	if !bytes.Equal(rest, want) {
		return fmt.Errorf("%w: its digest is another one", ErrDamaged)
	}
	return nil
}

// Revision implements feed.Checkpoint.
func (f *File) Revision() int64 { return f.header.Revision }

// MissingPrefixes implements feed.Checkpoint.
func (f *File) MissingPrefixes() []string { return f.header.MissingPrefixes }

// Witness implements feed.Checkpoint.
func (f *File) Witness() *feed.Object {
	w := f.header.Witness
	if w == nil {
		return nil
	}
	return &feed.Object{Key: w.Key, Revision: w.Revision, Value: w.Value}
}

// Load implements feed.Checkpoint. It may be called once. The next block is read while the
// loader decodes one.
func (f *File) Load(ctx context.Context, to feed.Loader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blocks := make(chan []feed.Object, 1)
	var failure error
	go func() {
		defer close(blocks)
		failure = f.sendBlocks(ctx, blocks)
	}()
	for page := range blocks {
		to.Add(ctx, page)
	}
	for prefix, revision := range f.header.ChangedAt {
		to.Unchanged(prefix, revision)
	}
	return failure
}

// sendBlocks sends the objects of each block, until the end or an error.
func (f *File) sendBlocks(ctx context.Context, blocks chan<- []feed.Object) error {
	for {
		block, err := f.nextBlock()
		if err != nil || block == nil {
			return err
		}
		page, err := readObjects(block, f.header.Revision)
		if err != nil {
			return err
		}
		select {
		case blocks <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements feed.Checkpoint.
func (f *File) Close() error { return f.file.Close() }
