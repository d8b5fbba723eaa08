package read_test

import (
	"context"
	"net/http"
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

// TestReasonsOfObjects reads what only another server may have.
func TestReasonsOfObjects(t *testing.T) {
	t.Parallel()
	for reason, err := range map[string]error{"history": cache.ErrExpired, "loading": cache.ErrNotReady, "unproven": cache.ErrUnproven} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			env := newTestTier(t, func(cfg *read.RouteConfig) {
				cfg.Objects, cfg.Watches, cfg.Hub = failingSource{cfg.Objects, err}, true, watch.NewHub(cfg.Objects.Resource())
			})
			for _, target := range []string{objectPath, listPath + "?limit=5", listPath + "?watch=1"} {
				if got := env.send(t, http.MethodGet, target, nil).Code; got != passedOnStatus {
					t.Errorf("%s: status %d", target, got)
				}
			}
			if got := env.reasons(t)[reason]; got != 3 {
				t.Errorf("%v requests were passed on with the reason, want 3", got)
			}
		})
	}
}

// changingSource changes the definition while it finds objects.
type changingSource struct {
	read.Objects
	changed *bool
}

func (s changingSource) Find(ctx context.Context, key, resourceVersion string) (encode.EntryRun, error) {
	*s.changed = true
	return s.Objects.Find(ctx, key, resourceVersion)
}

func (s changingSource) Select(ctx context.Context, key string, opts storage.ListOptions) (cache.Page, error) {
	*s.changed = true
	return s.Objects.Select(ctx, key, opts)
}

func (s changingSource) Begin(ctx context.Context, key string, opts storage.ListOptions) (cache.StartPoint, error) {
	*s.changed = true
	return s.Objects.Begin(ctx, key, opts)
}

// TestDefinitionChangesDuringRead reads what may be newer than the definition that the read
// began with.
func TestDefinitionChangesDuringRead(t *testing.T) {
	t.Parallel()
	for _, target := range []string{objectPath, listPath, listPath + "?watch=1"} {
		changed := false
		env := newTestTier(t, func(cfg *read.RouteConfig) {
			cfg.Objects, cfg.Watches, cfg.Hub = changingSource{cfg.Objects, &changed}, true, watch.NewHub(cfg.Objects.Resource())
			cfg.Custom = &read.Custom{Standard: cfg.Serializer.SupportedMediaTypes(), Begin: func() (func(), bool) { return func() {}, !changed }}
		})
		env.load(t, "one/a")
		if got := env.send(t, http.MethodGet, target, nil).Code; got != passedOnStatus || !changed || env.reasons(t)["resource"] != 1 {
			t.Errorf("%s: status %d, reasons %v", target, got, env.reasons(t))
		}
	}
}
