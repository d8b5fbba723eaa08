package apifeed_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/feed/feedtest"
)

// server is a feedtest.Source of feeds of an API server. sibling is nil, or another replica in
// front of it.
type server struct {
	*feedtest.APIServer
	sibling *feedtest.APIServer
}

// Feed implements feedtest.Source.
func (s server) Feed(_ *testing.T, sink feed.Sink) feed.Feed {
	config := apifeed.Config{
		Client: s.Client(), URL: s.URL + feedtest.CollectionPath, Prefix: feedtest.KeyPrefix, Sink: sink,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if s.sibling != nil {
		config.Sibling = &apifeed.Sibling{Client: s.sibling.Client(), URL: s.sibling.URL + feedtest.CollectionPath}
	}
	return s.Follows(apifeed.New(config))
}

// TestContract checks feeds of each kind of API server.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]feedtest.APIOptions{
		"watch-list": {WatchLists: true},
		"pages":      {},
		"replica":    {WatchLists: true, Replica: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			feedtest.Run(t, func(t *testing.T) feedtest.Source { return server{feedtest.NewAPIServer(t, options), nil} })
		})
	}
	t.Run("sibling", func(t *testing.T) {
		t.Parallel()
		feedtest.Run(t, func(t *testing.T) feedtest.Source {
			at := feedtest.NewAPIServer(t, feedtest.APIOptions{WatchLists: true})
			return server{at, at.Sibling(t)}
		})
	})
}
