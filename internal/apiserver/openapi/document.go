package openapi

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/wire/encode"
)

// pieceSize is how many bytes splitPieces puts into one piece. A piece is inflated as a whole.
const pieceSize = 128 << 10

// splitPieces makes pieces of a text.
func splitPieces(plain []byte) ([]encode.Piece, error) {
	var pieces []encode.Piece
	for len(plain) > 0 {
		n := min(len(plain), pieceSize)
		piece, err := encode.NewPiece(plain[:n])
		if err != nil {
			return nil, fmt.Errorf("compress document: %w", err)
		}
		pieces, plain = append(pieces, piece), plain[n:]
	}
	return pieces, nil
}

// document is pieces that are sent one after the other. It is immutable once it is put
// together.
type document struct {
	pieces []encode.Piece
	// ends[i] is the offset at which pieces[i] ends in the plain text.
	ends []int64
}

// add appends pieces that are not empty.
func (d *document) add(pieces ...encode.Piece) {
	for _, p := range pieces {
		if p.Size() == 0 {
			continue
		}
		d.pieces = append(d.pieces, p)
		d.ends = append(d.ends, d.size()+p.Size())
	}
}

// addSeparated appends pieces with a separator between them.
func (d *document) addSeparated(separator encode.Piece, pieces []encode.Piece) {
	first := true
	for _, p := range pieces {
		if p.Size() == 0 {
			continue
		}
		if !first {
			d.add(separator)
		}
		d.add(p)
		first = false
	}
}

// deflate deflates the pieces that are not yet, on all processors. An error recurs when
// the piece is written.
func (d *document) deflate() {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range d.pieces {
		if p.IsDeflated() {
			continue
		}
		group.Go(func() error {
			_, err := p.Deflate()
			return err
		})
	}
	_ = group.Wait()
}

// size returns the size of the plain text.
func (d *document) size() int64 {
	if len(d.ends) == 0 {
		return 0
	}
	return d.ends[len(d.ends)-1]
}

// documentReader reads a document's plain text, with one piece in memory at a time.
type documentReader struct {
	document *document
	offset   int64
	// plain is the text of the piece at index.
	plain []byte
	index int
}

func (d *document) reader() *documentReader { return &documentReader{document: d, index: -1} }

// Read implements io.Reader.
func (r *documentReader) Read(dst []byte) (int, error) {
	d := r.document
	i := sort.Search(len(d.ends), func(i int) bool { return d.ends[i] > r.offset })
	if i == len(d.ends) {
		return 0, io.EOF
	}
	if i != r.index {
		plain, err := d.pieces[i].AppendPlain(r.plain[:0])
		if err != nil {
			return 0, err
		}
		r.plain, r.index = plain, i
	}
	n := copy(dst, r.plain[r.offset-d.ends[i]+int64(len(r.plain)):])
	r.offset += int64(n)
	return n, nil
}

// Seek implements io.Seeker.
func (r *documentReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.document.size()
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning")
	}
	r.offset = offset
	return offset, nil
}

// lazyDocument is put together when its size is asked for. http.ServeContent does so only
// after the conditions of the request hold.
type lazyDocument struct {
	build func() (*document, error)
	*documentReader
}

// Seek implements io.Seeker.
func (l *lazyDocument) Seek(offset int64, whence int) (int64, error) {
	if l.documentReader == nil {
		built, err := l.build()
		if err != nil {
			return 0, err
		}
		l.documentReader = built.reader()
	}
	return l.documentReader.Seek(offset, whence)
}

// mustPiece makes a piece of a short text. Compression in memory cannot fail.
func mustPiece(text string) encode.Piece {
	piece, err := encode.NewPiece([]byte(text))
	if err != nil {
		panic(err)
	}
	return piece
}

var comma = mustPiece(",")
