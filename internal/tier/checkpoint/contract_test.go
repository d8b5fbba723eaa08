package checkpoint_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/feed/feedtest"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/checkpoint"
)

// keptRevisions is how many revisions a checkpoint of a keptSource lags.
const keptRevisions = 4

// keptSource is a feedtest.Source of feeds that begin with a checkpoint.
type keptSource struct{ *feedtest.APIServer }

// Feed implements feedtest.Source.
func (s keptSource) Feed(t *testing.T, sink feed.Sink) feed.Feed {
	dir, err := checkpoint.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	return s.Follows(apifeed.New(apifeed.Config{
		Client: s.Client(), URL: s.URL + feedtest.CollectionPath, Prefix: feedtest.KeyPrefix, Sink: sink, Logger: logger,
		Checkpoint: func() (feed.Checkpoint, error) {
			held := cache.New(cache.Config{Logger: logger})
			held.Register(cache.Spec{Prefix: feedtest.KeyPrefix})
			load := held.BeginLoad()
			objects, revision := s.Objects(keptRevisions)
			load.Add(t.Context(), objects)
			load.End(t.Context(), revision)
			contents, err := held.Contents()
			if err != nil {
				return nil, err
			}
			if _, err := dir.Write(t.Context(), "widgets", &checkpoint.Order{Source: source, Contents: contents}); err != nil {
				return nil, err
			}
			return dir.Open("widgets", source)
		},
	}))
}

// TestContract checks feeds whose first load is a checkpoint.
func TestContract(t *testing.T) {
	t.Parallel()
	feedtest.Run(t, func(t *testing.T) feedtest.Source {
		return keptSource{feedtest.NewAPIServer(t, feedtest.APIOptions{WatchLists: true})}
	})
}
