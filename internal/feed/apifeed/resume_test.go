package apifeed_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
)

// keptWidget is a checkpoint in memory, of one object.
type keptWidget struct {
	object *feed.Object
	damage error
}

func (k *keptWidget) Revision() int64           { return 7 }
func (k *keptWidget) MissingPrefixes() []string { return nil }
func (k *keptWidget) Close() error              { return nil }

func (k *keptWidget) Witness() *feed.Object { return k.object }

func (k *keptWidget) Load(ctx context.Context, to feed.Loader) error {
	if k.object != nil {
		to.Add(ctx, []feed.Object{*k.object})
	}
	return k.damage
}

// resume runs a feed with a checkpoint against a script.
func resume(t *testing.T, kept *keptWidget, steps ...step) *recorder {
	t.Helper()
	server := httptest.NewServer(&script{t: t, steps: steps})
	sink := newRecorder()
	f := apifeed.New(apifeed.Config{
		Client: server.Client(), URL: server.URL + "/apis/x/v1/widgets", Prefix: "/registry/x/widgets/", Sink: sink,
		Checkpoint: func() (feed.Checkpoint, error) { return kept, nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done; server.Close() })
	<-f.Tried()
	return sink
}

const added = "add /registry/x/widgets/ns/a 5 "

func (k *keptWidget) fill() *keptWidget {
	k.object = &feed.Object{Key: []byte("/registry/x/widgets/ns/a"), Value: []byte(widget("a", 5)), Revision: 5}
	return k
}

// TestCheckpoint begins with a checkpoint where the server has its history, and otherwise
// loads the resource.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	witness := step{path: "/apis/x/v1/namespaces/ns/widgets", query: []string{"resourceVersion=7", "resourceVersionMatch=Exact"}, body: listed(7, widget("a", 5))}
	watch := step{query: []string{"watch=true", "resourceVersion=7"}, body: event("MODIFIED", widget("a", 9)), hold: true}
	load := step{query: []string{"sendInitialEvents=true"}, body: event("ADDED", widget("a", 5)) + bookmark(8, true), hold: true}
	gone := step{query: []string{"resourceVersion=7"}, status: http.StatusGone}
	newest := func(rv int, objects ...string) step {
		return step{query: []string{"fieldSelector="}, body: listed(rv, objects...)}
	}
	resumed := []string{"begin", added + widget("a", 5), "end 7", "PUT /registry/x/widgets/ns/a 9 " + widget("a", 9)}
	loaded := []string{"begin", added + widget("a", 5), "end 8"}
	damaged := append([]string{"begin", added + widget("a", 5)}, loaded...)
	for name, test := range map[string]struct {
		kept  *keptWidget
		steps []step
		want  []string
	}{
		"sound":             {new(keptWidget).fill(), []step{witness, watch}, resumed},
		"away at first":     {new(keptWidget).fill(), []step{{status: http.StatusServiceUnavailable}, {status: http.StatusServiceUnavailable}, witness, watch}, resumed},
		"compacted":         {new(keptWidget).fill(), []step{gone, newest(9, widget("a", 5)), watch}, resumed},
		"compacted changed": {new(keptWidget).fill(), []step{gone, newest(9, widget("a", 8)), load}, loaded},
		"other history":     {new(keptWidget).fill(), []step{{body: listed(7, widget("a", 4))}, load}, loaded},
		"older server":      {new(keptWidget).fill(), []step{{status: http.StatusGatewayTimeout}, newest(6, widget("a", 5)), load}, loaded},
		"damaged":           {(&keptWidget{damage: errors.New("damaged")}).fill(), []step{witness, load}, damaged},
		"empty":             {&keptWidget{}, []step{load}, loaded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resume(t, test.kept, test.steps...).expect(t, test.want...)
		})
	}
}

// TestSentOtherwise breaks a watch of a server. The server then sends the newest object with
// other bytes, as after a new default in a definition, or an upgrade. The feed loads again.
// It ends if the object has another revision: that is another history.
func TestSentOtherwise(t *testing.T) {
	t.Parallel()
	otherwise := strings.Replace(widget("a", 5), `"metadata"`, `"added":"by default","metadata"`, 1)
	loaded := step{query: []string{"sendInitialEvents=true"}, body: event("ADDED", widget("a", 5)) + bookmark(7, true)}
	witness := func(object string) step {
		return step{query: []string{"resourceVersion=7", "resourceVersionMatch=Exact"}, body: listed(7, object)}
	}
	again := step{query: []string{"sendInitialEvents=true"}, body: event("ADDED", otherwise) + bookmark(8, true), hold: true}
	first := []string{"begin", added + widget("a", 5), "end 7"}
	for name, test := range map[string]struct {
		steps []step
		want  []string
		ends  bool
	}{
		"other bytes":    {[]step{loaded, witness(otherwise), again}, append(slices.Clone(first), "begin", added+otherwise, "end 8"), false},
		"other revision": {[]step{loaded, witness(widget("a", 6))}, first, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&script{t: t, steps: test.steps})
			sink := newRecorder()
			f := apifeed.New(apifeed.Config{
				Client: server.Client(), URL: server.URL + "/apis/x/v1/widgets", Prefix: "/registry/x/widgets/", Sink: sink,
			})
			ended := runFeed(t, f, server)
			sink.expect(t, test.want...)
			if !test.ends {
				return
			}
			if err := <-ended; !errors.Is(err, feed.ErrWentBack) {
				t.Errorf("Run ended with %v", err)
			}
		})
	}
}
