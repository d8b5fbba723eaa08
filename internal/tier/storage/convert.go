package storage

import (
	"context"
	"iter"
	"time"

	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// A webhook converts many objects in one call, while readers decode them one by one. So
// a reader first lets the webhook convert a batch, and then decodes it without waiting.

const (
	// maxConvertObjects and maxConvertBytes bound a batch of one reader.
	maxConvertObjects = 400
	maxConvertBytes   = 4 << 20
)

// Convert lets a webhook convert objects, so that Decode of them does not wait for the webhook.
// It returns Decode's error, or a timeout that a client understands. Without a webhook
// it does nothing.
func (s *Store) Convert(ctx context.Context, entries []*entry.Entry) error {
	if s.converter == nil {
		return nil
	}
	began := time.Now()
	err := s.converter.Convert(ctx, entries)
	usage.AddWait(ctx, began)
	if err != nil && ctx.Err() != nil {
		return storage.NewTimeoutError(s.cfg.Resource.Prefix(), "request did not complete within requested timeout")
	}
	return err
}

// Converted reports whether all objects are converted, so that Decode waits for none.
func (s *Store) Converted(entries []*entry.Entry) bool {
	return s.converter == nil || s.converter.Converted(entries)
}

// entries yields the entries of runs in order. If a webhook converts them, each is
// converted before it is yielded, and entries that the attributes exclude are left out. limit
// is how many entries the caller is likely to take. 0 stands for all.
func (s *Store) entries(ctx context.Context, runs iter.Seq[encode.EntryRun], sel *selection, limit int) iter.Seq2[*entry.Entry, error] {
	if s.converter == nil {
		return func(yield func(*entry.Entry, error) bool) {
			for run := range runs {
				for _, e := range run.Entries[run.From:run.To] {
					if !yield(e, nil) {
						return
					}
				}
			}
		}
	}
	return func(yield func(*entry.Entry, error) bool) {
		for batch := range conversionBatches(runs, sel, limit) {
			if err := s.Convert(ctx, batch); err != nil {
				yield(nil, err)
				return
			}
			for _, e := range batch {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// conversionBatches yields entries in batches of at most maxConvertObjects. A batch ends once
// it has maxConvertBytes. It is valid until the next one. The first batch has at most limit
// entries, unless limit is 0.
func conversionBatches(runs iter.Seq[encode.EntryRun], sel *selection, limit int) iter.Seq[[]*entry.Entry] {
	return func(yield func([]*entry.Entry) bool) {
		var batch []*entry.Entry
		size, maxObjects := 0, maxConvertObjects
		if limit > 0 {
			maxObjects = min(maxObjects, limit)
		}
		for run := range runs {
			for _, e := range run.Entries[run.From:run.To] {
				if e.Err == nil && !sel.matches(e) {
					continue
				}
				batch, size = append(batch, e), size+e.Size()
				if len(batch) < maxObjects && size < maxConvertBytes {
					continue
				}
				if !yield(batch) {
					return
				}
				batch, size, maxObjects = batch[:0], 0, maxConvertObjects
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// convert lets a webhook convert the objects that the watch may decode for some events.
func (w *watcher) convert(ctx context.Context, events []cache.Event) error {
	if w.store.converter == nil {
		return nil
	}
	var needed []*entry.Entry
	for i := range events {
		e := &events[i]
		if e.Revision <= w.start.After || !w.start.Holds(e.Key()) {
			continue
		}
		for _, entry := range []*entry.Entry{e.Entry, e.Previous} {
			if entry != nil && (entry == e.Entry || e.Entry == nil || !w.selection.empty()) {
				needed = append(needed, entry)
			}
		}
	}
	return w.store.Convert(ctx, needed)
}
