package storage

import (
	"context"
	"iter"

	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// Objects that a webhook converts are converted many at a time, before they are decoded
// one by one.

const (
	// maxConvertObjects and convertBytes bound what is converted at a time for one reader.
	maxConvertObjects = 400
	maxConvertBytes   = 4 << 20
)

// Convert has objects converted, so that Decode of them does not wait for a webhook.
// The error is that of Decode, or one of a request that took too long.
func (s *Store) Convert(ctx context.Context, entries []*resource.Entry) error {
	if s.converter == nil {
		return nil
	}
	err := s.converter.Convert(ctx, entries)
	if err != nil && ctx.Err() != nil {
		return storage.NewTimeoutError(s.cfg.Resource.Prefix(), "request did not complete within requested timeout")
	}
	return err
}

// Converted reports whether Decode of none of some objects waits for a webhook.
func (s *Store) Converted(entries []*resource.Entry) bool {
	return s.converter == nil || s.converter.Converted(entries)
}

// entries yields those of spans in order, a webhook's converted some ahead. What names
// rule out may be missing. limit is how many the caller is likely to take, 0 for all.
func (s *Store) entries(ctx context.Context, spans iter.Seq[encode.Span], p *storage.SelectionPredicate, limit int) iter.Seq2[*resource.Entry, error] {
	if s.converter == nil {
		return func(yield func(*resource.Entry, error) bool) {
			for span := range spans {
				for _, e := range span.Entries[span.From:span.To] {
					if !yield(e, nil) {
						return
					}
				}
			}
		}
	}
	return func(yield func(*resource.Entry, error) bool) {
		for some := range s.conversionBatches(spans, p, limit) {
			if err := s.Convert(ctx, some); err != nil {
				yield(nil, err)
				return
			}
			for _, e := range some {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// conversionBatches yields entries by as many as are converted at a time.
func (s *Store) conversionBatches(spans iter.Seq[encode.Span], p *storage.SelectionPredicate, limit int) iter.Seq[[]*resource.Entry] {
	labels, fields, _ := s.selectors(p)
	return func(yield func([]*resource.Entry) bool) {
		var chunk []*resource.Entry
		size, most := 0, maxConvertObjects
		if limit > 0 {
			most = min(most, limit)
		}
		for span := range spans {
			for _, e := range span.Entries[span.From:span.To] {
				if e.Err == nil && !e.Matches(labels, fields) {
					continue
				}
				chunk, size = append(chunk, e), size+e.Size()
				if len(chunk) < most && size < maxConvertBytes {
					continue
				}
				if !yield(chunk) {
					return
				}
				chunk, size, most = chunk[:0], 0, maxConvertObjects
			}
		}
		if len(chunk) > 0 {
			yield(chunk)
		}
	}
}

// convert converts what events of a watch show.
func (w *watcher) convert(ctx context.Context, events []cache.Event) error {
	if w.store.converter == nil {
		return nil
	}
	var shown []*resource.Entry
	for i := range events {
		e := &events[i]
		if e.Revision <= w.start.After || !w.start.Holds(e.Key()) {
			continue
		}
		for _, entry := range []*resource.Entry{e.Entry, e.Previous} {
			if entry != nil && (entry == e.Entry || e.Entry == nil || !w.opts.Predicate.Empty()) {
				shown = append(shown, entry)
			}
		}
	}
	return w.store.Convert(ctx, shown)
}
