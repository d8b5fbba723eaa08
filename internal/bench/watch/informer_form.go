package watch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// informerForm is the encoding in which informers ask for their watch-list.
type informerForm struct {
	name             string
	accept, encoding string
}

const (
	acceptMetadata      = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptWatchProtobuf = testbed.AcceptProtobuf + ";stream=watch"
)

// informerForms are the values of --forms. The first one is the default.
func informerForms() []informerForm {
	return []informerForm{
		{name: "json", accept: testbed.AcceptJSON},
		{name: "json-gzip", accept: testbed.AcceptJSON, encoding: testbed.EncodingGzip},
		{name: "protobuf", accept: acceptWatchProtobuf},
		{name: "protobuf-gzip", accept: acceptWatchProtobuf, encoding: testbed.EncodingGzip},
		{name: "metadata", accept: testbed.AcceptJSON + acceptMetadata},
		{name: "metadata-gzip", accept: testbed.AcceptJSON + acceptMetadata, encoding: testbed.EncodingGzip},
		{name: "metadata-protobuf", accept: acceptWatchProtobuf + acceptMetadata},
	}
}

func informerFormNames() (names []string) {
	for _, f := range informerForms() {
		names = append(names, f.name)
	}
	return names
}

// inForms returns each workload in each of the named forms.
func inForms(specs []informerWorkload, names []string) ([]informerWorkload, error) {
	for _, name := range names {
		if !slices.Contains(informerFormNames(), name) {
			return nil, fmt.Errorf("--forms=%s: choose of %s", name, strings.Join(informerFormNames(), ", "))
		}
	}
	var all []informerWorkload
	for _, s := range specs {
		for i, f := range informerForms() {
			if !slices.Contains(names, f.name) {
				continue
			}
			s := s
			if s.form = f; i > 0 {
				s.name += "-" + f.name
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// scanner returns a scanner whose mark is in the bookmark that ends the initial events.
func (f informerForm) scanner() interface {
	Feed([]byte, func(testbed.Event))
} {
	if strings.HasPrefix(f.accept, testbed.AcceptProtobuf) {
		return &frameScanner{mark: []byte(testbed.InitialEndKey)}
	}
	return &testbed.EventScanner{Mark: []byte(testbed.InitialEndMark)}
}

// maxBookmarkBytes is larger than any bookmark.
const maxBookmarkBytes = 4 << 10

// frameScanner is a testbed.EventScanner for protobuf, where each event is a frame that begins
// with its length. It searches for the mark only in frames as small as a bookmark.
type frameScanner struct {
	mark []byte

	frame     []byte // the length, and the first bytes after it
	remaining int    // bytes of the frame that have not arrived
}

// Feed scans the next bytes of a stream. It calls visit for each event that ends in them.
func (s *frameScanner) Feed(p []byte, visit func(testbed.Event)) {
	const length = 4
	for len(p) > 0 {
		if missing := length - len(s.frame); missing > 0 {
			n := min(missing, len(p))
			s.frame, p = append(s.frame, p[:n]...), p[n:]
			if len(s.frame) < length {
				return
			}
			s.remaining = int(binary.BigEndian.Uint32(s.frame))
		}
		n := min(s.remaining, len(p))
		s.frame = append(s.frame, p[:min(n, length+maxBookmarkBytes-len(s.frame))]...)
		if s.remaining, p = s.remaining-n, p[n:]; s.remaining > 0 {
			return
		}
		body := s.frame[length:]
		visit(testbed.Event{Head: body[:min(len(body), testbed.EventHeadBytes)], Marked: bytes.Contains(body, s.mark)})
		s.frame = s.frame[:0]
	}
}
