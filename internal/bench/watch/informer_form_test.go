package watch

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// TestFrameScanner feeds the scanner frames in parts of several sizes.
func TestFrameScanner(t *testing.T) {
	frame := func(kind string, object []byte) []byte {
		body := append([]byte{1<<3 | 2, byte(len(kind))}, kind...)
		body = append(body, object...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	stream := slices.Concat(frame("ADDED", make([]byte, 3*maxBookmarkBytes)), frame("ADDED", nil), frame("BOOKMARK", []byte(testbed.InitialEndKey)))
	for _, size := range []int{1, 3, 1000, len(stream)} {
		s := informerForm{accept: acceptWatchProtobuf}.scanner()
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

func TestInForms(t *testing.T) {
	specs := []informerWorkload{{name: "watchlist-64", informers: 64}}
	all, err := inForms(specs, []string{"protobuf-gzip", "json"})
	if err != nil || len(all) != 2 || all[0].name != "watchlist-64" || all[1].name != "watchlist-64-protobuf-gzip" || all[1].form.encoding != testbed.EncodingGzip {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err := inForms(specs, []string{"yaml"}); err == nil {
		t.Error("an unknown form was taken")
	}
}
