package apifeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/feed"
)

// loadBatch is the largest number of objects that are handed to the sink in one call.
const loadBatch = 500

// errNoOrder says that a watch does not begin with all objects in the order of their keys,
// which the API does not promise. API servers keep objects in that order from 1.33 on.
var errNoOrder = errors.New("the API server's watch-list has no order")

// initialEvents are the objects with which a watch begins. They go to the sink in batches
// while they arrive: all of a large resource are not in memory at the same time.
type initialEvents struct {
	loader feed.Loader
	batch  []feed.Object
	// lastKey is the key of the last object, and objects the number of objects.
	lastKey []byte
	objects int
	// done is called when the sink has all objects. It is nil for the objects of a sibling.
	done func()
}

// collect takes an initial event. It returns true at the bookmark that ends them, when the
// sink has all objects.
func (f *Feed) collect(ctx context.Context, initial *initialEvents, event frame) (ended bool, err error) {
	if event.kind == apiwatch.Added {
		return false, f.addInitial(ctx, initial, &event.object)
	}
	if event.kind != apiwatch.Bookmark || !event.object.endsInitial {
		return false, fmt.Errorf("watch %s: %s among the initial events", f.cfg.URL, event.kind)
	}
	revision := event.object.revision
	if err := f.setApplied(revision); err != nil {
		return false, err
	}
	initial.loader.Add(ctx, initial.batch)
	f.endLoad(ctx, initial.loader, revision)
	f.setFollowing()
	f.cfg.Logger.Info("Feed follows the API server", "url", f.cfg.URL, "revision", revision, "objects", initial.objects)
	return true, nil
}

// addInitial adds an object to the batch, and hands a full batch to the sink.
func (f *Feed) addInitial(ctx context.Context, initial *initialEvents, o *object) error {
	added := f.present(o)
	if initial.objects > 0 && bytes.Compare(added.Key, initial.lastKey) <= 0 {
		return fmt.Errorf("%w: %q after %q", errNoOrder, added.Key, initial.lastKey)
	}
	f.witness.Observe(&added)
	initial.lastKey = added.Key
	initial.objects++
	initial.batch = append(initial.batch, added)
	if len(initial.batch) == loadBatch {
		initial.loader.Add(ctx, initial.batch)
		initial.batch = make([]feed.Object, 0, loadBatch)
	}
	return nil
}
