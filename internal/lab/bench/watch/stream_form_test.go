package watch

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

// TestFrameScanner feeds the scanner frames in parts of several sizes.
func TestFrameScanner(t *testing.T) {
	frame := func(kind string, object []byte) []byte {
		body := append([]byte{1<<3 | 2, byte(len(kind))}, kind...)
		body = append(body, object...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	stream := slices.Concat(frame("ADDED", make([]byte, 12<<10)), frame("ADDED", nil), frame("BOOKMARK", []byte(testbed.InitialEndKey)))
	for _, size := range []int{1, 3, 1000, len(stream)} {
		s := streamForm{accept: acceptWatchProtobuf}.endScanner()
		added, ended := 0, 0
		for part := range slices.Chunk(stream, size) {
			s.Feed(part, func(e testbed.Event) {
				switch {
				case e.IsType("ADDED") && !e.Marked:
					added++
				case e.IsType("BOOKMARK") && e.Marked:
					ended++
				}
			})
		}
		if added != 2 || ended != 1 {
			t.Errorf("in parts of %d: %d added, %d bookmarks", size, added, ended)
		}
	}
}

// TestStampScanner feeds the scanners of both encodings an event in parts of several sizes.
func TestStampScanner(t *testing.T) {
	object := []byte(`{"metadata":{"annotations":{"` + testbed.StampMark + `1234567890123456789"},"x":1}}`)
	events := map[string][]byte{testbed.AcceptJSON: testbed.ModifiedEvent(object), acceptWatchProtobuf: benchtest.Frame(testbed.ModifiedEvent(object))}
	for accept, event := range events {
		for _, size := range []int{1, 7, len(event)} {
			s := streamForm{accept: accept}.stampScanner()
			var stamps []int64
			for part := range slices.Chunk(slices.Concat(event, event), size) {
				s.Feed(part, func(e testbed.Event) { stamps = append(stamps, testbed.ParseStamp(e.Value)) })
			}
			if !slices.Equal(stamps, []int64{1234567890123456789, 1234567890123456789}) {
				t.Errorf("%s in parts of %d: got %d", accept, size, stamps)
			}
		}
	}
}
