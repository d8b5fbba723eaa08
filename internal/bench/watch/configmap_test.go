package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/bench/testbed"
)

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
