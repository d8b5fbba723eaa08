package apifeed_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
)

// TestSibling begins with the objects of another replica where the server has their history,
// and otherwise loads the resource.
func TestSibling(t *testing.T) {
	t.Parallel()
	sent := step{query: []string{"sendInitialEvents=true", "resourceVersion=0"}, body: event("ADDED", widget("a", 5)) + bookmark(7, true), hold: true}
	away := step{status: http.StatusServiceUnavailable}
	there := step{query: []string{"limit=1"}, body: listed(7)}
	witness := step{path: "/apis/x/v1/namespaces/ns/widgets", query: []string{"resourceVersion=7", "resourceVersionMatch=Exact"}, body: listed(7, widget("a", 5))}
	// counted is the page of one object after which there are rest others, "null" for no word.
	counted := func(next, rest string) step {
		return step{
			path: "/apis/x/v1/widgets", query: []string{"limit=1", "resourceVersion=7", "resourceVersionMatch=Exact"},
			body: `{"metadata":{"resourceVersion":"7","continue":"` + next + `","remainingItemCount":` + rest + `},"items":[{}]}`,
		}
	}
	one := counted("", "null")
	watch := step{query: []string{"watch=true", "resourceVersion=7"}, body: event("MODIFIED", widget("a", 9)), hold: true}
	load := step{query: []string{"sendInitialEvents=true"}, body: event("ADDED", widget("a", 5)) + bookmark(8, true), hold: true}
	newest := step{query: []string{"fieldSelector="}, body: listed(6, widget("a", 5))}
	taken := []string{"begin", added + widget("a", 5), "end 7", "PUT /registry/x/widgets/ns/a 9 " + widget("a", 9)}
	loaded := []string{"begin", "begin", added + widget("a", 5), "end 8"}
	for name, test := range map[string]struct {
		replica, server []step
		want            []string
	}{
		"sound":         {[]step{sent}, []step{there, witness, one, watch}, taken},
		"server away":   {[]step{sent}, []step{away, away, there, witness, one, watch}, taken},
		"goes away":     {[]step{sent, sent}, []step{there, away, away, away, load}, loaded},
		"no old reads":  {[]step{sent, sent}, []step{there, {status: http.StatusForbidden}, {status: http.StatusForbidden}, load}, loaded},
		"other history": {[]step{sent}, []step{there, {body: listed(7, widget("a", 4))}, load}, loaded},
		"more there":    {[]step{sent}, []step{there, witness, counted("token", "1"), load}, loaded},
		"none there":    {[]step{sent}, []step{there, witness, {body: listed(7)}, load}, loaded},
		"no count":      {[]step{sent}, []step{there, witness, counted("token", "null"), load}, loaded},
		"compacted":     {[]step{sent}, []step{there, witness, {status: http.StatusGone}, load}, loaded},
		"ahead":         {[]step{sent}, []step{there, {status: http.StatusGatewayTimeout}, newest, load}, loaded},
		"refused":       {[]step{{status: http.StatusForbidden}}, []step{there, load}, loaded},
		"ends early":    {[]step{{body: event("ADDED", widget("a", 5))}}, []step{there, load}, loaded},
		"an error":      {[]step{{body: event("ADDED", widget("a", 5)) + event("ERROR", expired)}}, []step{there, load}, loaded},
		"no order":      {[]step{{body: event("ADDED", widget("b", 5)) + event("ADDED", widget("a", 5)) + bookmark(7, true)}}, []step{there, load}, loaded},
		"empty":         {[]step{{body: bookmark(7, true)}}, []step{there, load}, loaded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replica := httptest.NewServer(&script{t: t, steps: test.replica})
			server := httptest.NewServer(&script{t: t, steps: test.server})
			sink := newRecorder()
			f := apifeed.New(apifeed.Config{
				Client: server.Client(), URL: server.URL + "/apis/x/v1/widgets", Prefix: "/registry/x/widgets/", Sink: sink,
				Sibling: &apifeed.Sibling{Client: replica.Client(), URL: replica.URL + "/apis/x/v1/widgets"},
			})
			t.Cleanup(replica.Close)
			runFeed(t, f, server)
			sink.expect(t, test.want...)
		})
	}
}

// TestSiblingAfterCheckpoint loads from the server when that has forgotten the changes since a
// checkpoint, or since a sibling's objects. Only the first load is the sibling's.
func TestSiblingAfterCheckpoint(t *testing.T) {
	t.Parallel()
	sent := step{body: event("ADDED", widget("a", 5)) + bookmark(7, true), hold: true}
	witness := step{query: []string{"resourceVersion=7"}, body: listed(7, widget("a", 5))}
	one := step{query: []string{"limit=1", "resourceVersion=7"}, body: listed(7, widget("a", 5))}
	gone := step{query: []string{"watch=true", "resourceVersion=7"}, status: http.StatusGone}
	load := step{query: []string{"sendInitialEvents=true"}, body: event("ADDED", widget("a", 8)) + bookmark(9, true), hold: true}
	for name, test := range map[string]struct {
		kept            *keptWidget
		replica, server []step
	}{
		"checkpoint": {new(keptWidget).fill(), []step{sent}, []step{witness, gone, load}},
		"sibling":    {nil, []step{sent, sent}, []step{{query: []string{"limit=1"}, body: listed(7)}, witness, one, gone, load}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replica := httptest.NewServer(&script{t: t, steps: test.replica})
			t.Cleanup(replica.Close)
			server := httptest.NewServer(&script{t: t, steps: test.server})
			config := apifeed.Config{
				Client: server.Client(), URL: server.URL + "/apis/x/v1/widgets", Prefix: "/registry/x/widgets/", Sink: newRecorder(),
				Sibling: &apifeed.Sibling{Client: replica.Client(), URL: replica.URL + "/apis/x/v1/widgets"},
			}
			if test.kept != nil {
				config.Checkpoint = func() (feed.Checkpoint, error) { return test.kept, nil }
			}
			runFeed(t, apifeed.New(config), server)
			config.Sink.(*recorder).expect(t, "begin", added+widget("a", 5), "end 7", "begin", "add /registry/x/widgets/ns/a 8 "+widget("a", 8), "end 9")
		})
	}
}
