package encode

import (
	"bytes"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// TestBookmarksAreShared sends bookmarks of some revisions to many streams. Their bytes
// must be those of the media type's encoder, and be made once for each revision.
func TestBookmarksAreShared(t *testing.T) {
	for _, framing := range []Framing{WatchJSON, WatchProtobuf} {
		for _, encoding := range []Encoding{Identity, Gzip} {
			w := newFixture(t)
			f := w.watchForm(t, framing)
			made := 0
			object := func(revision int64) (runtime.Object, error) {
				made++
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(revision, 10)}}, nil
			}
			var clients []*streamClient
			for range 10 {
				clients = append(clients, newClient(f, encoding))
			}
			revisions := []int64{100, 100, 101, 105, 105}
			for _, revision := range revisions {
				var first [][]byte
				for i, c := range clients {
					segments, err := c.AppendBookmark(nil, revision, object)
					if err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						first = segments
					}
					for j := range segments {
						if &segments[j][0] != &first[j][0] {
							t.Fatalf("%v %s: the bytes of a bookmark are not shared", framing, encoding)
						}
						c.wire.Write(segments[j])
					}
					obj, _ := object(revision)
					made--
					w.oracle(t, f, &c.want, watch.Bookmark, obj)
				}
			}
			if made != 3 {
				t.Errorf("%v %s: %d bookmarks were encoded for 3 revisions", framing, encoding, made)
			}
			for _, c := range clients {
				c.check(t, false)
				if c.sizes != c.want.Len() {
					t.Errorf("%v %s: %d bytes were observed, want %d", framing, encoding, c.sizes, c.want.Len())
				}
			}
		}
	}
}

// TestBookmarkOfAnOlderRevision asks for revisions in an order that goes back.
func TestBookmarkOfAnOlderRevision(t *testing.T) {
	w := newFixture(t)
	c := newClient(w.watchForm(t, WatchJSON), Identity)
	made := 0
	object := func(revision int64) (runtime.Object, error) {
		made++
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(revision, 10)}}, nil
	}
	for i, revision := range []int64{100, 102, 100, 101, 102} {
		segments, err := c.AppendBookmark(nil, revision, object)
		if err != nil {
			t.Fatal(err)
		}
		if text := []byte(`"resourceVersion":"` + strconv.FormatInt(revision, 10) + `"`); !bytes.Contains(segments[0], text) {
			t.Errorf("bookmark %d is %s, want revision %d", i, segments[0], revision)
		}
	}
	if made != 3 {
		t.Errorf("%d bookmarks were encoded, want one for each revision", made)
	}
}
