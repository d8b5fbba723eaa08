package apifeed_test

import (
	"fmt"
	"slices"
	"testing"
)

// TestContents reads the keys of all objects at the newest revision.
func TestContents(t *testing.T) {
	t.Parallel()
	f, sink, _ := run(t,
		step{body: bookmark(7, true), hold: true},
		step{path: "/apis/x/v1/widgets", body: listed(12, widget("a", 4), widget("b", 11))},
	)
	sink.expect(t, "begin", "end 7")
	objects, revision, err := f.Contents(t.Context())
	if err != nil || revision != 12 {
		t.Fatalf("read at revision %d, %v, want 12", revision, err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, fmt.Sprintf("%s %d %q", o.Key, o.Revision, o.Value))
	}
	if want := []string{`/registry/x/widgets/ns/a 4 ""`, `/registry/x/widgets/ns/b 11 ""`}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
