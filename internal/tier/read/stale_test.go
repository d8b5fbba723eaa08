package read_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/millrace/millrace/internal/tier/read"
)

// TestStaleAnswersAreMarked reads while etcd does not answer, with and without bounded
// staleness. Only answers that need not be new are given, and only these are marked.
func TestStaleAnswersAreMarked(t *testing.T) {
	t.Parallel()
	const one, all = "/api/v1/namespaces/default/configmaps/a", "/api/v1/configmaps"
	for name, bounded := range map[string]bool{"bounded": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newTestTier(t, func(cfg *read.RouteConfig) { cfg.Shared.BoundedStaleness = bounded })
			env.load(t, "default/a")
			header := func(path string) (int, string) {
				w := env.send(t, http.MethodGet, path, nil)
				return w.Code, w.Header().Get("X-Millrace-Stale")
			}
			for _, path := range []string{one, all} {
				if code, stale := header(path); code != http.StatusOK || stale != "" {
					t.Errorf("GET %s: status %d, stale %q", path, code, stale)
				}
			}
			env.etcd.err = errors.New("not there")
			for _, path := range []string{one + "?resourceVersion=0", all + "?resourceVersion=0"} {
				if code, stale := header(path); code != http.StatusOK || stale != "" {
					t.Errorf("GET %s: status %d, stale %q", path, code, stale)
				}
			}
			for _, path := range []string{one, all} {
				code, stale := header(path)
				if bounded && (code != http.StatusOK || stale != "3s") || !bounded && (code == http.StatusOK || stale != "") {
					t.Errorf("GET %s without etcd: status %d, stale %q", path, code, stale)
				}
			}
		})
	}
}
