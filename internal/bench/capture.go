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
	floorBody
	bytes int64
	items int
	took  time.Duration
	cpu   time.Duration // of the server; zero if its process is unknown
}

// capture sends one request of w and keeps its body in the captures' directory. The body goes
// to the file unread, so that took is the server's time, not a decoder's.
func (l *loader) capture(ctx context.Context, c *conn, w workload) (capture, error) {
	req, err := l.target.newRequest(ctx, w.request)
	if err != nil {
		return capture{}, err
	}
	f, err := os.Create(filepath.Join(l.captures, w.name))
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
		floorBody: floorBody{
			Name:            w.name,
			File:            w.name,
			ContentType:     resp.Header.Get("Content-Type"),
			ContentEncoding: resp.Header.Get("Content-Encoding"),
		},
		bytes: n,
		took:  time.Since(start),
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
