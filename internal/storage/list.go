package storage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// GetList implements storage.Interface.
func (s *Store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	sc, ok, err := s.scope(key, opts.Recursive)
	if err != nil {
		return err
	}
	exact, from, err := storage.ValidateListOptions(sc.etcdKey, s.versioner, opts)
	if err != nil {
		return err
	}
	if !ok || sharded(opts) {
		return s.cfg.Etcd.GetList(ctx, key, opts, list)
	}
	sc.from = strings.TrimPrefix(from, s.cfg.Resource.Prefix())
	snapshot, err := s.snapshot(ctx, exact, opts)
	var page page
	if err == nil {
		page, err = s.fill(ctx, snapshot, sc, opts, list)
	}
	if isExpired(err) || errors.Is(err, errUnreadable) {
		return s.cfg.Etcd.GetList(ctx, key, opts, list)
	}
	if err != nil {
		return err
	}
	token, remaining, err := storage.PrepareContinueToken(s.cfg.Resource.Prefix()+page.last, sc.etcdKey, snapshot.Revision, page.total, page.more, opts)
	if err != nil {
		return err
	}
	return s.versioner.UpdateList(list, uint64(snapshot.Revision), token, remaining)
}

// snapshot returns the state that a list asks for: that of an exact revision,
// or if exact is 0 one that is fresh enough. It returns cache.ErrExpired if only
// etcd may have it.
func (s *Store) snapshot(ctx context.Context, exact int64, opts storage.ListOptions) (cache.Snapshot, error) {
	if exact > 0 {
		if err := s.waitAtLeast(ctx, exact); err != nil {
			return cache.Snapshot{}, err
		}
		if exact < s.cfg.Etcd.CompactRevision() {
			// Clients are told so even if the cache still has the events.
			return cache.Snapshot{}, cache.ErrExpired
		}
		return s.cfg.Resource.At(exact)
	}
	resourceVersion := opts.ResourceVersion
	if opts.Recursive && opts.Predicate.Continue != "" {
		// A token of a list that was compacted away continues with the newest state.
		resourceVersion = ""
	}
	if err := s.waitFor(ctx, resourceVersion); err != nil {
		return cache.Snapshot{}, err
	}
	return s.cfg.Resource.Snapshot(), nil
}

func sharded(opts storage.ListOptions) bool {
	return opts.Predicate.ShardSelector != nil && !opts.Predicate.ShardSelector.Empty()
}

// errUnreadable says that a list holds an object that the cache cannot read.
var errUnreadable = errors.New("stored object cannot be read")

// page is what a filled list says of the rest.
type page struct {
	// last is the key of the last object in the list.
	last string
	// total counts the objects in scope from the page's first on, selected or not.
	total int64
	more  bool
}

// fill puts the selected objects into a list.
func (s *Store) fill(ctx context.Context, snapshot cache.Snapshot, sc scope, opts storage.ListOptions, list runtime.Object) (page, error) {
	items, err := itemsOf(list)
	if err != nil {
		return page{}, err
	}
	newItem := newItemFunc(list, items)
	var p page
	limit := opts.Predicate.Limit
	if opts.ResourceVersion == "0" && opts.Predicate.Continue == "" && !s.cfg.LikeEtcd {
		// As in Kubernetes' watch cache, whose clients rely on whole lists.
		limit = 0
	}
	p.total = int64(countIn(snapshot, sc))
	items.Set(reflect.MakeSlice(items.Type(), 0, capacity(opts, limit, p.total)))
	seen := int64(0)
	for e := range entriesIn(snapshot, sc) {
		seen++
		obj, err := s.selected(ctx, &opts.Predicate, e, newItem)
		if err != nil {
			return page{}, err
		}
		if obj == nil {
			continue
		}
		items.Set(reflect.Append(items, reflect.ValueOf(obj).Elem()))
		p.last = e.Key
		if limit > 0 && int64(items.Len()) >= limit {
			p.more = seen < p.total
			break
		}
	}
	return p, nil
}

// selected returns the decoded object if the predicate selects it, else nil.
func (s *Store) selected(ctx context.Context, p *storage.SelectionPredicate, e *resource.Entry, newItem func() runtime.Object) (runtime.Object, error) {
	if e.Err != nil {
		return nil, errUnreadable
	}
	return choose(p, e, func() (obj runtime.Object, err error) {
		if ctx.Err() != nil {
			return nil, storage.NewTimeoutError(s.cfg.Resource.Prefix()+e.Key, "request did not complete within requested timeout")
		}
		err = e.Read(func(value []byte) error {
			obj, err = s.decoder.DecodeListItem(ctx, value, uint64(e.Revision), newItem)
			return err
		})
		return obj, err
	})
}

// entriesIn walks a scope in key order.
func entriesIn(snapshot cache.Snapshot, sc scope) func(func(*resource.Entry) bool) {
	if sc.recursive {
		return snapshot.All(sc.key, sc.from)
	}
	return func(yield func(*resource.Entry) bool) {
		if e := snapshot.Get(sc.key); e != nil {
			yield(e)
		}
	}
}

func countIn(snapshot cache.Snapshot, sc scope) int {
	if sc.recursive {
		return snapshot.CountFrom(sc.key, sc.from)
	}
	if snapshot.Get(sc.key) == nil {
		return 0
	}
	return 1
}

// capacity avoids both growing and large slices that a selector leaves empty.
func capacity(opts storage.ListOptions, limit, total int64) int {
	const atMost = 2048
	n := total
	if limit > 0 {
		n = min(n, limit)
	}
	if !opts.Predicate.Empty() {
		n = min(n, atMost)
	}
	return int(n)
}

func itemsOf(list runtime.Object) (reflect.Value, error) {
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, err
	}
	items, err := conversion.EnforcePtr(ptr)
	if err != nil {
		return reflect.Value{}, err
	}
	if items.Kind() != reflect.Slice {
		return reflect.Value{}, fmt.Errorf("need a pointer to slice, got %v", items.Kind())
	}
	return items, nil
}

// newItemFunc makes empty items. Unstructured ones are decoded to the list's version.
func newItemFunc(list runtime.Object, items reflect.Value) func() runtime.Object {
	if u, ok := list.(*unstructured.UnstructuredList); ok && u.GetAPIVersion() != "" {
		apiVersion := u.GetAPIVersion()
		return func() runtime.Object {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion}}
		}
	}
	item := items.Type().Elem()
	return func() runtime.Object { return reflect.New(item).Interface().(runtime.Object) }
}
