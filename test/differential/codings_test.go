package differential

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace/millrace/internal/encode"
)

// negotiated is what a client is to get that sends these lines of Accept-Encoding.
func negotiated(lines []string, offered ...encode.Encoding) string {
	return string(encode.Negotiate(http.Header{"Accept-Encoding": lines}, offered...))
}

// kubernetesCoding is what the stock server makes of them: it looks for the name without
// a weight, in the first line.
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

// codingsDiffer reports whether we read Accept-Encoding otherwise than Kubernetes, which
// knows neither weights nor zstd.
func (a *answer) codingsDiffer() bool {
	return negotiated(a.asked, encode.Zstd, encode.Gzip) != kubernetesCoding(a.asked)
}

// codingDifference accepts the coding that the client prefers, and also Kubernetes' own,
// since short answers have none and its handlers answer what is passed on.
func codingDifference(out *strings.Builder, ours, theirs *answer) {
	coding := ours.header.Get("Content-Encoding")
	if coding != negotiated(ours.asked, encode.Zstd, encode.Gzip) && coding != theirs.header.Get("Content-Encoding") {
		fmt.Fprintf(out, "  coding %q, asked for %q\n", coding, ours.asked)
	}
	if vary := ours.header.Values("Vary"); coding != "" && !slices.Contains(vary, "Accept-Encoding") {
		fmt.Fprintf(out, "  header Vary: %q with %s\n", vary, coding)
	}
}

// unzstd reads a single frame that nothing follows.
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
		if block>>1&3 == 1 { // one byte, repeated
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
