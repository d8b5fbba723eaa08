package read_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/encode"
)

// failingSource cannot answer, for one reason.
type failingSource struct {
	read.Objects
	err error
}

func (s failingSource) Find(context.Context, string, string) (encode.EntryRun, error) {
	return encode.EntryRun{}, s.err
}

func (s failingSource) Select(context.Context, string, storage.ListOptions) (cache.Page, error) {
	return cache.Page{}, s.err
}

func (s failingSource) Begin(context.Context, string, storage.ListOptions) (cache.StartPoint, error) {
	return cache.StartPoint{}, s.err
}

// TestReasonsOfObjects reads what only another server may have. A watch is passed on for
// a short time if it could be answered here later.
func TestReasonsOfObjects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		reason string
		short  bool
	}{
		{cache.ErrExpired, "history", false},
		{cache.ErrNotReady, "loading", true},
		{cache.ErrUnproven, "unproven", true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			env := newTestTier(t, func(cfg *read.RouteConfig) {
				cfg.Objects, cfg.Watches, cfg.Hub = failingSource{cfg.Objects, c.err}, true, watch.NewHub(cfg.Objects.Resource())
			})
			var last *http.Request
			env.handler = env.tier.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { last = req }))
			seconds := func(query string) int {
				last = nil
				env.send(t, http.MethodGet, listPath+query, nil)
				if last == nil {
					t.Fatalf("%s was not passed on", query)
				}
				n, _ := strconv.Atoi(last.URL.Query().Get("timeoutSeconds"))
				return n
			}
			env.send(t, http.MethodGet, objectPath, nil)
			if n := seconds("?limit=5"); n != 0 || last.URL.RawQuery != "limit=5" {
				t.Errorf("a list became %s", last.URL.RawQuery)
			}
			for query, most := range map[string]int{"?watch=1": 60, "?watch=1&timeoutSeconds=600&labelSelector=a%3Db": 60, "?watch=1&timeoutSeconds=5": 5} {
				n := seconds(query)
				if short := n > 0 && n <= most; short != c.short && query != "?watch=1&timeoutSeconds=5" {
					t.Errorf("%s takes %d s at the other server", query, n)
				}
				if want := map[bool]string{true: "a=b", false: ""}[len(query) > 30]; last.URL.Query().Get("labelSelector") != want {
					t.Errorf("%s became %s", query, last.URL.RawQuery)
				}
			}
			if got := env.reasons(t)[c.reason]; got != 5 {
				t.Errorf("%v requests were passed on with the reason, want 5", got)
			}
		})
	}
}
