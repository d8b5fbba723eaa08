package checkpoint

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Order is what to write.
type Order struct {
	// Source is Header.Source.
	Source   string
	Contents cache.Contents
	// LeaveOut reports whether a resource is not to be written. Resources that the cache has
	// decrypted are never written. Nil leaves out no other resources.
	LeaveOut func(*cache.Part) bool
	// Pause is called after each block with the time that work on the block took. Its error
	// ends the writing. Nil means no pauses.
	Pause func(ctx context.Context, worked time.Duration) error
}

func (o *Order) leavesOut(p *cache.Part) bool {
	return p.Decrypted || o.LeaveOut != nil && o.LeaveOut(p)
}

// write writes a checkpoint. It holds one block in memory, packed and not.
func write(ctx context.Context, to io.Writer, o *Order) error {
	sum := sha256.New()
	buffered := bufio.NewWriterSize(to, bufferBytes)
	w := &blockWriter{out: io.MultiWriter(buffered, sum), pause: o.Pause, began: time.Now()}
	if _, err := io.WriteString(w.out, magic); err != nil {
		return err
	}
	header, err := o.header()
	if err != nil {
		return err
	}
	if w.plain, err = json.Marshal(header); err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	for i := range o.Contents.Parts {
		if p := &o.Contents.Parts[i]; !o.leavesOut(p) {
			if err := w.addPart(ctx, p); err != nil {
				return err
			}
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if _, err := w.out.Write(make([]byte, lengthBytes)); err != nil {
		return err
	}
	if _, err := buffered.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return buffered.Flush()
}

// header describes what is written.
func (o *Order) header() (*Header, error) {
	h := &Header{Source: o.Source, Revision: o.Contents.Revision, ChangedAt: map[string]int64{}}
	var newest *entry.Entry
	var prefix string
	for i := range o.Contents.Parts {
		p := &o.Contents.Parts[i]
		if p.Prefix != "" {
			h.ChangedAt[p.Prefix] = p.ChangedAt
		}
		if o.leavesOut(p) {
			h.MissingPrefixes = append(h.MissingPrefixes, p.Prefix)
			continue
		}
		for e := range p.Snapshot.All("", "") {
			if newest == nil || e.Revision > newest.Revision {
				newest, prefix = e, p.Prefix
			}
		}
	}
	if newest == nil {
		return h, nil
	}
	h.Witness = &Witness{Key: []byte(prefix + newest.Key), Revision: newest.Revision}
	return h, newest.Read(func(value []byte) error {
		h.Witness.Value = append([]byte(nil), value...)
		return nil
	})
}

// blockWriter gathers objects to blocks.
type blockWriter struct {
	out io.Writer
	// plain is the block so far. packed is a buffer.
	plain, packed []byte
	// pause is Order.Pause.
	pause func(context.Context, time.Duration) error
	// began is when the work on the block began.
	began time.Time
}

func (w *blockWriter) addPart(ctx context.Context, p *cache.Part) error {
	for e := range p.Snapshot.All("", "") {
		err := e.Read(func(value []byte) error {
			w.plain = appendObject(w.plain, p.Prefix, e.Key, e.Revision, value)
			return nil
		})
		if err != nil {
			return err
		}
		if len(w.plain) < blockBytes {
			continue
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the block, unless it is empty, and pauses.
func (w *blockWriter) flush(ctx context.Context) error {
	if len(w.plain) == 0 {
		return nil
	}
	w.packed = s2.Encode(w.packed[:cap(w.packed)], w.plain)
	w.plain = w.plain[:0]
	if _, err := w.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(w.packed)))); err != nil {
		return err
	}
	if _, err := w.out.Write(w.packed); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.pause != nil {
		if err := w.pause(ctx, time.Since(w.began)); err != nil {
			return err
		}
	}
	w.began = time.Now()
	return nil
}
