package testbed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestScannerAtEveryCut feeds the scanner a stream in pieces of every size.
func TestScannerAtEveryCut(t *testing.T) {
	at := time.Unix(1_700_000_000, 123)
	managed := `"managedFields":[{"fieldsV1":{"f:` + StampKey + `":{}}}]`
	lines := []string{
		`{"type":"MODIFIED","object":{"metadata":{"annotations":{"` + StampMark + FormatStamp(at) + `"},` + managed + `}}}`,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`,
		`{"type":"ADDED","object":{` + managed + `,"metadata":{"annotations":{"` + StampMark + FormatStamp(at.Add(1)) + `"}},"data":"` + strings.Repeat("x", 99) + `"}}`,
		``,
		`{"type":"DELETED","object":{"` + StampKey + `":"short"}}`,
		`{}`,
	}
	stream := strings.Join(lines, "\n") + "\n"
	want := []string{"MODIFIED 1700000000000000123", "BOOKMARK 0", "ADDED 1700000000000000124", "DELETED 0", " 0"}
	for size := 1; size <= len(stream); size++ {
		var got []string
		s := EventScanner{Mark: []byte(StampMark), ValueBytes: StampDigits}
		for piece := range slices.Chunk([]byte(stream), size) {
			s.Feed(slices.Clone(piece), func(e Event) {
				kind := ""
				for _, k := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
					if e.IsType(k) {
						kind = k
					}
				}
				if marked := len(e.Value) > 0; marked != e.Marked {
					t.Errorf("marked %t with %q", e.Marked, e.Value)
				}
				got = append(got, fmt.Sprintf("%s %d", kind, ParseStamp(e.Value)))
			})
			clear(piece) // the scanner must not retain it
		}
		if stream = strings.Join(lines, "\n") + "\n"; !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: got %q, want %q", size, got, want)
		}
	}
}

func TestScannerOfMarkAlone(t *testing.T) {
	s, marked := EventScanner{Mark: []byte(InitialEndMark)}, 0
	for _, part := range []string{`{"type":"BOOKMARK","x":{"k8s.io/initial-`, `events-end":"true"}}` + "\n" + `{"type":"BOOKMARK"}` + "\n"} {
		s.Feed([]byte(part), func(e Event) {
			if e.Marked {
				marked++
			}
		})
	}
	if marked != 1 {
		t.Errorf("%d events marked, want 1", marked)
	}
}

// TestScannerWithAnotherMark changes the mark between two events of one piece.
func TestScannerWithAnotherMark(t *testing.T) {
	s := EventScanner{Mark: []byte(InitialEndMark), HeadBytes: 40}
	var marked []string
	s.Feed([]byte(`{"type":"BOOKMARK","x":{`+InitialEndMark+`}}`+"\n"+`{"type":"MODIFIED","x":{"y":"last=7"}}`+"\n"), func(e Event) {
		if e.Marked {
			marked = append(marked, string(e.Head[len(`{"type":"`):][:3])+string(e.Value))
		}
		s.Mark, s.ValueBytes = []byte("last="), 1
	})
	if want := []string{"BOO", "MOD7"}; !slices.Equal(marked, want) {
		t.Errorf("got %q, want %q", marked, want)
	}
}
