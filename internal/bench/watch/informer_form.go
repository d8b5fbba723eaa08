package watch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// informerForm is how informers ask for their watch-list.
type informerForm struct {
	name             string
	accept, encoding string
}

const (
	acceptMetadata      = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptWatchProtobuf = testbed.AcceptProtobuf + ";stream=watch"
)

// informerForms begin with the one that is measured by default.
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

// inForms repeats each workload in all chosen forms.
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

// scanner finds the events and the bookmark that ends initial ones.
func (f informerForm) scanner() interface{ feed([]byte, func(event)) } {
	if strings.HasPrefix(f.accept, testbed.AcceptProtobuf) {
		return &frameScanner{mark: []byte(initialEndKey)}
	}
	return &eventScanner{mark: []byte(initialEnd)}
}

// bookmarkMost is more than a bookmark has.
const bookmarkMost = 4 << 10

// frameScanner is eventScanner for protobuf: each event is a frame with its length
// ahead. Only frames as small as bookmarks are looked through for the mark.
type frameScanner struct {
	mark []byte

	frame []byte // the length, and the beginning behind it
	left  int    // bytes of the frame that are still to come
}

// feed takes the next bytes of a stream and calls visit for each event that they end.
func (s *frameScanner) feed(p []byte, visit func(event)) {
	const length = 4
	for len(p) > 0 {
		if lack := length - len(s.frame); lack > 0 {
			n := min(lack, len(p))
			s.frame, p = append(s.frame, p[:n]...), p[n:]
			if len(s.frame) < length {
				return
			}
			s.left = int(binary.BigEndian.Uint32(s.frame))
		}
		n := min(s.left, len(p))
		s.frame = append(s.frame, p[:min(n, length+bookmarkMost-len(s.frame))]...)
		if s.left, p = s.left-n, p[n:]; s.left > 0 {
			return
		}
		body := s.frame[length:]
		visit(event{head: body[:min(len(body), eventHead)], marked: bytes.Contains(body, s.mark)})
		s.frame = s.frame[:0]
	}
}
