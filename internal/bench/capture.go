package bench

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// capture is a response body as it came over the wire, in a file.
type capture struct {
	Name            string `json:"name"`
	File            string `json:"file"` // in the captures' directory
	ContentType     string `json:"contentType"`
	ContentEncoding string `json:"contentEncoding,omitempty"`

	bytes int64
	items int
	took  time.Duration
	cpu   time.Duration // of the server; zero if its process is unknown
}

// captureTo sends one request of w and keeps its body in dir. The body goes
// to the file unread, so that took is the server's time, not a decoder's.
func (c *conn) captureTo(ctx context.Context, t *target, w workload, dir string) (capture, error) {
	req, err := t.request(ctx, w)
	if err != nil {
		return capture{}, err
	}
	f, err := os.Create(filepath.Join(dir, w.name))
	if err != nil {
		return capture{}, fmt.Errorf("create capture: %w", err)
	}
	defer f.Close()
	start := time.Now()
	resp, err := c.send(req)
	if err != nil {
		return capture{}, err
	}
	defer resp.Body.Close()
	// The bare writer keeps CopyBuffer from bypassing the buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, resp.Body, c.buf)
	if err != nil {
		return capture{}, fmt.Errorf("capture %s after %d bytes: %w", w.name, n, err)
	}
	if err := f.Close(); err != nil {
		return capture{}, fmt.Errorf("write capture: %w", err)
	}
	return capture{
		Name:            w.name,
		File:            w.name,
		ContentType:     resp.Header.Get("Content-Type"),
		ContentEncoding: resp.Header.Get("Content-Encoding"),
		bytes:           n,
		took:            time.Since(start),
	}, nil
}

// validate decodes a captured body and counts its items.
func (c *capture) validate(w workload, dir string) error {
	f, err := os.Open(filepath.Join(dir, c.File))
	if err != nil {
		return fmt.Errorf("open capture: %w", err)
	}
	defer f.Close()
	if c.ContentEncoding != "" && c.ContentEncoding != w.encoding {
		return fmt.Errorf("validate %s: content encoding %q was not asked for", w.name, c.ContentEncoding)
	}
	body, err := decompress(f, c.ContentEncoding)
	if err != nil {
		return fmt.Errorf("validate %s: %w", w.name, err)
	}
	defer body.Close()
	if c.items, err = countItems(body, w.body); err != nil {
		return fmt.Errorf("validate %s: %w", w.name, err)
	}
	if c.items < w.minItems {
		return fmt.Errorf("validate %s: %d items, expected at least %d", w.name, c.items, w.minItems)
	}
	return nil
}

// decompress undoes a content encoding; the empty one is none.
func decompress(body io.Reader, encoding string) (io.ReadCloser, error) {
	switch encoding {
	case "":
		return io.NopCloser(body), nil
	case encodingGzip:
		r, err := gzip.NewReader(bufio.NewReaderSize(body, readSize))
		if err != nil {
			return nil, fmt.Errorf("gunzip: %w", err)
		}
		return r, nil
	case encodingZstd:
		r, err := zstd.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("decompress zstd: %w", err)
		}
		return r.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("content encoding %q is unknown", encoding)
}
