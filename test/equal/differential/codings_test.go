package differential

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace/millrace/internal/wire/encode"
)

// negotiated returns the encoding that a client should get which sends these
// Accept-Encoding lines.
func negotiated(lines []string, offered ...encode.Encoding) string {
	return string(encode.Negotiate(http.Header{"Accept-Encoding": lines}, offered...))
}

// kubernetesCoding returns the encoding that the stock server chooses for the
// lines. It only looks at the first line, and only for a name without a weight.
func kubernetesCoding(lines []string) string {
	if len(lines) > 0 {
		for token := range strings.SplitSeq(lines[0], ",") {
			if strings.TrimSpace(token) == "gzip" {
				return "gzip"
			}
		}
	}
	return ""
}

// codingsDiffer reports whether our negotiation and Kubernetes' choose
// different encodings. Kubernetes knows neither weights nor zstd.
func (a *answer) codingsDiffer() bool {
	return negotiated(a.asked, encode.Zstd, encode.Gzip) != kubernetesCoding(a.asked)
}

// codingDifference accepts the encoding that the client prefers. It also
// accepts Kubernetes' own choice: short answers are not encoded, and its
// handlers answer requests that are passed on, which the other server may have answered from
// bytes if it has other settings.
func codingDifference(out *strings.Builder, ours, theirs *answer) {
	coding := ours.header.Get("Content-Encoding")
	if coding != negotiated(ours.asked, encode.Zstd, encode.Gzip) && coding != theirs.header.Get("Content-Encoding") && coding != kubernetesCoding(ours.asked) {
		fmt.Fprintf(out, "  coding %q, asked for %q\n", coding, ours.asked)
	}
	if vary := ours.header.Values("Vary"); coding != "" && !slices.Contains(vary, "Accept-Encoding") {
		fmt.Fprintf(out, "  header Vary: %q with %s\n", vary, coding)
	}
}

// unzstd decodes a single zstd frame. Bytes after the frame are an error.
func unzstd(packed []byte) ([]byte, error) {
	var header zstd.Header
	if err := header.Decode(packed); err != nil {
		return nil, fmt.Errorf("read frame header: %w", err)
	}
	for at, last := header.HeaderSize, false; ; {
		if last {
			if at != len(packed) {
				return nil, fmt.Errorf("%w: %d of %d bytes", errFrames, at, len(packed))
			}
			break
		}
		if at+3 > len(packed) {
			return nil, errFrames
		}
		block := int(packed[at]) | int(packed[at+1])<<8 | int(packed[at+2])<<16
		size := block >> 3
		if block>>1&3 == 1 { // an RLE block: one byte, repeated
			size = 1
		}
		at, last = at+3+size, block&1 != 0
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	defer r.Close()
	return r.DecodeAll(packed, nil)
}

var errFrames = errors.New("not one whole zstd frame")
