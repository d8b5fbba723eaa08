package encode

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/entry"
)

// watchForm makes a form of a watch's frames.
func (w *fixture) watchForm(tb testing.TB, framing Framing) *Form {
	tb.Helper()
	mediaType := runtime.ContentTypeJSON
	if framing == WatchProtobuf {
		mediaType = runtime.ContentTypeProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(w.codecs.SupportedMediaTypes(), mediaType)
	f, err := NewForm(Config{
		Decode: w.decode, Encoder: w.codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion),
		Events: w.codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion), Framer: info.StreamSerializer.Framer,
		Framing: framing, MediaType: mediaType, Budget: w.budget, RecentFrames: NewRecentFrames(1 << 20),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// oracle writes frames with the media type's own encoder.
func (w *fixture) oracle(tb testing.TB, f *Form, out io.Writer, kind watch.EventType, obj runtime.Object) {
	tb.Helper()
	var object, event bytes.Buffer
	if err := f.cfg.Encoder.Encode(obj, &object); err != nil {
		tb.Fatal(err)
	}
	if err := f.cfg.Events.Encode(&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object.Bytes()}}, &event); err != nil {
		tb.Fatal(err)
	}
	if _, err := f.cfg.Framer.NewFrameWriter(out).Write(event.Bytes()); err != nil {
		tb.Fatal(err)
	}
}

func (w *fixture) oracleOf(tb testing.TB, f *Form, out io.Writer, c Change) {
	tb.Helper()
	e := c.Entry.Clone()
	e.Revision = c.Revision
	obj, err := w.decode(e)
	if err != nil {
		tb.Fatal(err)
	}
	w.oracle(tb, f, out, c.Kind, obj)
}

// streamClient has a stream, the bytes that it was sent, and the frames that it should
// have been sent.
type streamClient struct {
	Stream
	wire  bytes.Buffer
	want  bytes.Buffer
	sizes int
}

func newClient(f *Form, encoding Encoding) *streamClient {
	c := &streamClient{}
	c.Stream = Stream{Form: f, Writer: &c.wire, Encoding: encoding, Observe: func(n int) { c.sizes += n }}
	return c
}

// starvedReader has the bytes that a client has received so far.
type starvedReader struct {
	bytes.Reader
	// starved says that the decoder has asked for more.
	starved bool
}

func (a *starvedReader) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	if err != nil {
		a.starved = true
	}
	return n, err
}

// check decodes all that was sent so far. The decoder must not need further bytes for
// that.
func (c *streamClient) check(t *testing.T, ended bool) {
	t.Helper()
	got := c.wire.Bytes()
	if c.Encoding == Gzip {
		from := &starvedReader{Reader: *bytes.NewReader(got)}
		r, err := gzip.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		got = make([]byte, c.want.Len())
		if _, err := io.ReadFull(r, got); err != nil || from.starved {
			t.Fatalf("decode: %v, asked for more: %v", err, from.starved)
		}
		if rest, err := io.ReadAll(r); len(rest) > 0 || ended != (err == nil) {
			t.Fatalf("%q and %v behind the frames; ended: %v", rest, err, ended)
		}
	}
	if !bytes.Equal(got, c.want.Bytes()) {
		t.Fatalf("%q: sent %q, want %q", c.Encoding, got, c.want.Bytes())
	}
	if c.sizes != c.want.Len() {
		t.Fatalf("counted %d bytes, want %d", c.sizes, c.want.Len())
	}
}

// TestStreams sends random events to clients that join at any time. After each write it
// decodes the bytes that a client has received.
func TestStreams(t *testing.T) {
	for _, framing := range []Framing{WatchJSON, WatchProtobuf} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(framing, seed), func(t *testing.T) {
				w := newFixture(t)
				f := w.watchForm(t, framing)
				random := rand.New(rand.NewPCG(seed, 1))
				all := groups(t, 20, 4)
				var log []Change
				var clients []*streamClient
				for step := range 40 {
					e := configEntry(t, random.IntN(5), strings.Repeat("word ", random.IntN(2000)))
					log = append(log, Change{
						Frames: new(Frames), Entry: e, Revision: e.Revision + random.Int64N(2),
						Kind: []watch.EventType{watch.Added, watch.Modified, watch.Deleted}[random.IntN(3)],
					})
					if step%5 == 0 {
						clients = append(clients, w.join(t, f, all, random))
					}
					for _, c := range clients {
						w.step(t, c, log, random)
					}
				}
				for _, c := range clients {
					if err := c.Close(); err != nil {
						t.Fatal(err)
					}
					c.check(t, true)
				}
			})
		}
	}
}

// join makes a client, which may be sent initial events.
func (w *fixture) join(t *testing.T, f *Form, all []group, random *rand.Rand) *streamClient {
	t.Helper()
	c := newClient(f, []Encoding{Identity, Gzip}[random.IntN(2)])
	from := random.IntN(20)
	to := from + random.IntN(20-from)
	if err := c.Initial(runsBetween(all, from, to)); err != nil {
		t.Fatal(err)
	}
	for run := range runsBetween(all, from, to) {
		for _, e := range run.Entries[run.From:run.To] {
			w.oracleOf(t, f, &c.want, Change{Kind: watch.Added, Entry: e, Revision: e.Revision})
		}
	}
	c.check(t, false)
	return c
}

// step sends the newest events, a bookmark, or nothing.
func (w *fixture) step(t *testing.T, c *streamClient, log []Change, random *rand.Rand) {
	t.Helper()
	var err error
	switch random.IntN(8) {
	case 0:
		bookmark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "77"}}
		err = c.Signal(watch.Bookmark, bookmark)
		w.oracle(t, c.Form, &c.want, watch.Bookmark, bookmark)
	case 1:
		return
	case 2:
		log = log[max(0, len(log)-5):]
		fallthrough
	default:
		if len(log) > 5 {
			log = log[len(log)-1:]
		}
		err = c.pull(log, random.IntN(5000))
		for _, change := range log {
			w.oracleOf(t, c.Form, &c.want, change)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, false)
}

// pull sends changes as a connection that takes room bytes at a time.
func (c *streamClient) pull(changes []Change, room int) error {
	for len(changes) > 0 {
		segments, rest, err := c.Append(nil, changes, room+1)
		if err != nil {
			return err
		}
		for _, segment := range segments {
			c.wire.Write(segment)
		}
		changes = rest
	}
	return nil
}

// TestEventIsEncodedOnce sends an event to several watches, which share the frame.
func TestEventIsEncodedOnce(t *testing.T) {
	w := newFixture(t)
	f := w.watchForm(t, WatchJSON)
	e := configEntry(t, 1, "text")
	change := Change{Frames: new(Frames), Kind: watch.Modified, Entry: e, Revision: e.Revision}
	for range 5 {
		for _, encoding := range []Encoding{Identity, Gzip} {
			if err := newClient(f, encoding).pull([]Change{change}, 1); err != nil {
				t.Fatal(err)
			}
		}
		collectGarbage()
	}
	if n := w.decoded.Load(); n != 1 {
		t.Errorf("decoded %d times, want once", n)
	}
}

// TestAgesAreOfNow sends events with ages in their frames. Watches that get an event in the
// same second share its frame. A watch that gets the event later gets a new frame, even
// between frames that the watch shares with others.
func TestAgesAreOfNow(t *testing.T) {
	w := newFixture(t)
	cfg := w.watchForm(t, WatchJSON).cfg
	cfg.Volatile = true
	cfg.Object = func(obj runtime.Object) (runtime.Object, error) {
		// Object i is i seconds younger than the first, so that the ages of different
		// events are equal at different times.
		o := obj.(*corev1.ConfigMap)
		i, err := strconv.Atoi(o.Labels["index"])
		o.Data["age"] = time.Now().Add(time.Duration(-i) * time.Second).String()
		return o, err
	}
	f, err := NewForm(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var changes []Change
	for i := range 3 {
		e := configEntry(t, i, "text")
		changes = append(changes, Change{Frames: new(Frames), Kind: watch.Modified, Entry: e, Revision: e.Revision})
	}
	synctest.Test(t, func(t *testing.T) {
		// send sends changes to a client, and returns how many were encoded.
		send := func(c *streamClient, changes ...Change) int64 {
			before := w.decoded.Load()
			if err := c.pull(changes, 1); err != nil {
				t.Fatal(err)
			}
			encoded := w.decoded.Load() - before
			for _, change := range changes {
				obj, err := w.decode(change.Entry)
				if err == nil {
					obj, err = cfg.Object(obj)
				}
				if err != nil {
					t.Fatal(err)
				}
				w.oracle(t, f, &c.want, change.Kind, obj)
			}
			c.check(t, false)
			return encoded
		}
		for _, encoding := range []Encoding{Identity, Gzip} {
			early, again, late := newClient(f, encoding), newClient(f, encoding), newClient(f, encoding)
			if n := send(early, changes[0]) + send(again, changes[0]); n != 1 {
				t.Errorf("%s: encoded %d times in a second, want once", encoding, n)
			}
			<-time.After(time.Second)
			send(early, changes[1])
			if n := send(late, changes...); n != 2 {
				t.Errorf("%s: encoded %d of three events for a watch that is a second late for the first, want 2", encoding, n)
			}
			if n := send(again, changes[1:]...); n != 0 {
				t.Errorf("%s: encoded %d events again in the same second", encoding, n)
			}
			<-time.After(time.Second)
		}
	})
}

// TestRecentFramesAreBounded sends more frames than are kept. The oldest are encoded
// again for a watch that is late.
func TestRecentFramesAreBounded(t *testing.T) {
	w := newFixture(t)
	f := w.watchForm(t, WatchJSON)
	f.cfg.RecentFrames = NewRecentFrames(4000)
	var log []Change
	for i := range 30 {
		e := configEntry(t, i, strings.Repeat("x", 400))
		log = append(log, Change{Frames: new(Frames), Kind: watch.Added, Entry: e, Revision: e.Revision})
	}
	for _, c := range log {
		if err := newClient(f, Identity).pull([]Change{c}, 1); err != nil {
			t.Fatal(err)
		}
	}
	collectGarbage()
	before := w.decoded.Load()
	late := newClient(f, Identity)
	for _, c := range log {
		if err := late.pull([]Change{c}, 1); err != nil {
			t.Fatal(err)
		}
		w.oracleOf(t, f, &late.want, c)
	}
	late.check(t, false)
	if made := w.decoded.Load() - before - int64(len(log)); made < 15 || made > 28 {
		t.Errorf("made %d of 30 frames again, want most and not all", made)
	}
}

// TestReleasedFramesAreEncodedAgain releases the frames. Later frames are kept again.
func TestReleasedFramesAreEncodedAgain(t *testing.T) {
	w := newFixture(t)
	f := w.watchForm(t, WatchJSON)
	e := configEntry(t, 1, "some text")
	change := Change{Frames: new(Frames), Kind: watch.Modified, Entry: e, Revision: e.Revision}
	for _, want := range []int64{1, 2, 2} {
		if err := newClient(f, Identity).pull([]Change{change}, 1); err != nil {
			t.Fatal(err)
		}
		if n := w.decoded.Load(); n != want {
			t.Errorf("decoded %d times, want %d", n, want)
		}
		if want == 1 {
			f.cfg.RecentFrames.Release()
		}
		collectGarbage()
	}
}

// TestFollowingFramesShrink sends similar frames with gzip. Each is compressed with the
// one before it as its dictionary.
func TestFollowingFramesShrink(t *testing.T) {
	w := newFixture(t)
	f := w.watchForm(t, WatchJSON)
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 300)
	for i := range words {
		words[i] = fmt.Sprint(random.IntN(1e6))
	}
	c := newClient(f, Gzip)
	var sent []int
	for i := range 4 {
		words[0] = fmt.Sprint(i)
		e := configEntry(t, 1, strings.Join(words, " "))
		before := c.wire.Len()
		change := Change{Frames: new(Frames), Kind: watch.Modified, Entry: e, Revision: int64(i)}
		if err := c.pull([]Change{change}, 1); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, c.wire.Len()-before)
	}
	if slices.Max(sent[1:]) > sent[0]/8 {
		t.Errorf("sent %v bytes, want far less after the first", sent)
	}
}

func TestStreamFails(t *testing.T) {
	w := newFixture(t)
	f := w.watchForm(t, WatchJSON)
	bad := &entry.Entry{Key: "a/bad"}
	c := newClient(f, Identity)
	if err := c.pull([]Change{{Frames: new(Frames), Kind: watch.Added, Entry: bad}}, 1); !errors.Is(err, errNotDecoded) {
		t.Errorf("Append() = %v, want the decoder's error", err)
	}
	undecodable := group{memo: new(Memo), entries: []*entry.Entry{bad}}
	if err := c.Initial(runsBetween([]group{undecodable}, 0, 1)); !errors.Is(err, errNotDecoded) {
		t.Errorf("Initial() = %v, want the decoder's error", err)
	}
	c.Writer = failingWriter{}
	good := group{memo: new(Memo), entries: []*entry.Entry{configEntry(t, 1, "text")}}
	if err := c.Initial(runsBetween([]group{good}, 0, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Initial() = %v, want the writer's error", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
