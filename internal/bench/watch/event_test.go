package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// TestScannerAtEveryCut feeds the scanner a stream in pieces of every size.
func TestScannerAtEveryCut(t *testing.T) {
	at := time.Unix(1_700_000_000, 123)
	managed := `"managedFields":[{"fieldsV1":{"f:` + testbed.StampKey + `":{}}}]`
	lines := []string{
		`{"type":"MODIFIED","object":{"metadata":{"annotations":{"` + testbed.StampMark + testbed.FormatStamp(at) + `"},` + managed + `}}}`,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`,
		`{"type":"ADDED","object":{` + managed + `,"metadata":{"annotations":{"` + testbed.StampMark + testbed.FormatStamp(at.Add(1)) + `"}},"data":"` + strings.Repeat("x", 99) + `"}}`,
		``,
		`{"type":"DELETED","object":{"` + testbed.StampKey + `":"short"}}`,
		`{}`,
	}
	stream := strings.Join(lines, "\n") + "\n"
	want := []string{"MODIFIED 1700000000000000123", "BOOKMARK 0", "ADDED 1700000000000000124", "DELETED 0", " 0"}
	for size := 1; size <= len(stream); size++ {
		var got []string
		s := eventScanner{mark: []byte(testbed.StampMark), valueBytes: testbed.StampDigits}
		for piece := range slices.Chunk([]byte(stream), size) {
			s.feed(slices.Clone(piece), func(e event) {
				kind := ""
				for _, k := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
					if e.isType(k) {
						kind = k
					}
				}
				if marked := len(e.value) > 0; marked != e.marked {
					t.Errorf("marked %t with %q", e.marked, e.value)
				}
				got = append(got, fmt.Sprintf("%s %d", kind, testbed.ParseStamp(e.value)))
			})
			clear(piece) // the scanner must not retain it
		}
		if stream = strings.Join(lines, "\n") + "\n"; !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: got %q, want %q", size, got, want)
		}
	}
}

func TestScannerOfMarkAlone(t *testing.T) {
	s, marked := eventScanner{mark: []byte(initialEnd)}, 0
	for _, part := range []string{`{"type":"BOOKMARK","x":{"k8s.io/initial-`, `events-end":"true"}}` + "\n" + `{"type":"BOOKMARK"}` + "\n"} {
		s.feed([]byte(part), func(e event) {
			if e.marked {
				marked++
			}
		})
	}
	if marked != 1 {
		t.Errorf("%d events marked, want 1", marked)
	}
}

func TestStampedFrame(t *testing.T) {
	at := time.Now()
	template := testbed.ModifiedEvent(append(configMap("all", 3, 1, at), '\n'))
	if strings.Count(string(template), "\n") != 1 || len(template) < 1900 || len(template) > 2600 {
		t.Fatalf("%d bytes: %s", len(template), template)
	}
	later := at.Add(time.Second)
	event := testbed.WithStamp(template, later)
	if len(event) != len(template) || !strings.Contains(string(event), testbed.StampMark+testbed.FormatStamp(later)) || strings.Contains(string(template), testbed.FormatStamp(later)) {
		t.Errorf("got %s of %s", event, template)
	}
	if testbed.ParseStamp([]byte("no digits")) != 0 || testbed.ParseStamp(nil) != 0 {
		t.Error("ParseStamp found a stamp in text without one")
	}
}

func TestContentIsText(t *testing.T) {
	first, second := properties(4, 1), properties(4, 2)
	if first != properties(4, 1) || first == properties(5, 1) {
		t.Error("the text does not depend on the object alone")
	}
	a, b := strings.Split(first, "\n"), strings.Split(second, "\n")
	changed := 0
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			changed++
		}
	}
	if changed == 0 || changed > len(a)/3 {
		t.Errorf("%d of %d lines changed in a round", changed, len(a))
	}
}
