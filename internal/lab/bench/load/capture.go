package load

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// Capture is a response body as the server sent it. The file Name in Loader.CaptureDir has its bytes,
// until WarmUp removes it.
type Capture struct {
	floor.Body
	Bytes   int64         // on the wire
	items   int           // set by validate
	took    time.Duration // from the request to the last byte
	cpu     time.Duration // of the server
	refused int           // 429s before the answer
}

// capture sends one request of w and stores the body in CaptureDir. It does not decode the body,
// so that took does not contain the time of a decoder.
func (l *Loader) capture(ctx context.Context, c *testbed.Conn, w Workload) (Capture, error) {
	req, err := l.Target.NewRequest(ctx, w.Request)
	if err != nil {
		return Capture{}, err
	}
	f, err := os.Create(filepath.Join(l.CaptureDir, w.Name))
	if err != nil {
		return Capture{}, fmt.Errorf("create capture: %w", err)
	}
	defer f.Close()
	start := time.Now()
	resp, err := c.Send(req)
	if err != nil {
		return Capture{}, err
	}
	defer resp.Body.Close()
	// Without the wrapper CopyBuffer would use the file's ReadFrom in place of the buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, resp.Body, c.Buffer)
	if err != nil {
		return Capture{}, fmt.Errorf("capture %s after %d bytes: %w", w.Name, n, err)
	}
	if err := f.Close(); err != nil {
		return Capture{}, fmt.Errorf("write capture: %w", err)
	}
	header := resp.Header
	return Capture{
		Body:  floor.Body{Name: w.Name, ContentType: header.Get("Content-Type"), ContentEncoding: header.Get("Content-Encoding")},
		Bytes: n,
		took:  time.Since(start),
	}, nil
}

// validate decodes the body in the directory dir, and sets items. It returns an error if there
// are fewer items than the workload expects, or if the server chose an encoding that was not
// requested.
func (c *Capture) validate(w Workload, dir string) error {
	f, err := os.Open(filepath.Join(dir, c.Name))
	if err != nil {
		return fmt.Errorf("open capture: %w", err)
	}
	defer f.Close()
	if c.ContentEncoding != "" && c.ContentEncoding != w.Encoding {
		return fmt.Errorf("validate %s: content encoding %q was not asked for", w.Name, c.ContentEncoding)
	}
	body, err := decompress(f, c.ContentEncoding)
	if err != nil {
		return fmt.Errorf("validate %s: %w", w.Name, err)
	}
	if c.items, err = countItems(body, w.Body); err != nil {
		return fmt.Errorf("validate %s: %w", w.Name, err)
	}
	if c.items < w.MinItems {
		return fmt.Errorf("validate %s: %d items, expected at least %d", w.Name, c.items, w.MinItems)
	}
	return nil
}

// decompress returns a reader of the decompressed body. encoding is "gzip" or "".
func decompress(body io.Reader, encoding string) (io.Reader, error) {
	if encoding == "" {
		return body, nil
	}
	r, err := gzip.NewReader(bufio.NewReaderSize(body, testbed.ReadSize))
	if err != nil {
		return nil, fmt.Errorf("gunzip: %w", err)
	}
	return r, nil
}
