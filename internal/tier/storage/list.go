package storage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// GetList implements storage.Interface.
func (s *Store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	l, err := s.locate(ctx, key, opts)
	var p page
	if err == nil {
		p, err = s.fill(ctx, l, list)
	}
	if errors.Is(err, errUnreadable) {
		// etcd's storage appends to the list.
		if err := meta.SetList(list, nil); err != nil {
			return err
		}
	}
	if isExpired(err) || errors.Is(err, errUnreadable) {
		return s.listEtcd(ctx, key, l.scope, opts, list)
	}
	if err != nil {
		return err
	}
	s.recordList(p)
	token, remaining, err := s.token(l, p, opts)
	if err != nil {
		return err
	}
	if err := s.versioner.UpdateList(list, uint64(l.snapshot.Revision), token, remaining); err != nil {
		return err
	}
	opts.Predicate.SetShardInfoOnList(list)
	return nil
}

// Select finds the objects of a list without decoding them. An error that wraps cache.ErrExpired
// means that only etcd may have the objects. Other errors are as GetList returns them. The
// caller makes sure that attributes cover the predicate (CoversPredicate).
func (s *Store) Select(ctx context.Context, key string, opts storage.ListOptions) (cache.Page, error) {
	l, err := s.locate(ctx, key, opts)
	if err != nil {
		return cache.Page{}, err
	}
	found := l.snapshot.Select(&l.query)
	result := cache.Page{Result: found, Revision: l.snapshot.Revision}
	if !found.Opaque {
		last := page{last: found.Last, total: int64(found.Total), more: found.More}
		result.Continue, result.Remaining, err = s.token(l, last, opts)
	}
	return result, err
}

// listRequest is a list translated to a query of a snapshot.
type listRequest struct {
	scope     scope
	selection selection
	// snapshot is as fresh as the list asks. It is not set after an error.
	snapshot cache.Snapshot
	query    cache.Query
}

// locate translates a list, and waits for a snapshot that is as fresh as the list asks. The
// error wraps cache.ErrExpired if only etcd may have the state. The request then has its
// scope.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.computeListLimit; compare at each upgrade.
func (s *Store) locate(ctx context.Context, key string, opts storage.ListOptions) (listRequest, error) {
	sc, ok, err := s.listScope(ctx, key, &opts)
	if err != nil {
		return listRequest{}, err
	}
	exact, from, err := storage.ValidateListOptions(sc.tokenPrefix, s.versioner, opts)
	if err != nil {
		return listRequest{}, err
	}
	l := listRequest{scope: sc}
	var unknown error
	if l.selection, unknown = s.selection(&opts.Predicate); !ok || unknown != nil {
		return l, fmt.Errorf("list %s: %w", key, cache.ErrExpired)
	}
	from = sc.continueAt(strings.TrimPrefix(from, s.cfg.Resource.Prefix()))
	l.query = cache.Query{Prefix: sc.key, Single: !sc.recursive, From: from, Limit: int(opts.Predicate.Limit)}
	l.selection.restrict(&l.query)
	if opts.ResourceVersion == "0" && !s.cfg.LikeEtcd {
		// Kubernetes' watch cache ignores the limit here, and clients rely on whole lists.
		l.query.Limit = 0
	}
	if exact == 0 && opts.Predicate.Continue == "" {
		l.query.Within = s.indexedPart(opts.Predicate.Field)
	}
	began := time.Now()
	proven, err := s.waitForList(ctx, exact, &l, opts)
	usage.AddWait(ctx, began)
	if err != nil {
		return l, err
	}
	l.snapshot, err = s.snapshot(exact, proven)
	return l, err
}

// indexedPart returns the part of a field selector that Kubernetes' watch cache has an
// index for, or nil. As in that cache, a page that ends with the index's last object is the last
// page.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.watchCache.waitAndGetLatestSnapshot; compare at each upgrade.
func (s *Store) indexedPart(selector fields.Selector) fields.Selector {
	if selector == nil || s.cfg.LikeEtcd {
		return nil
	}
	for _, field := range s.cfg.IndexedFields {
		if value, ok := selector.RequiresExactMatch(field); ok {
			return fields.OneTermEqualSelector(field, value)
		}
	}
	return nil
}

// token returns the continue token after a page, and how many objects follow the page. That is
// nil if Kubernetes does not say it.
func (s *Store) token(l listRequest, p page, opts storage.ListOptions) (string, *int64, error) {
	return storage.PrepareContinueToken(s.cfg.Resource.Prefix()+p.last, l.scope.omittedPrefix(), l.snapshot.Revision, p.total, p.more, opts)
}

// waitForList waits for the state that a list asks for: of the revision exact, or fresh enough
// if exact is 0. It returns cache.ErrExpired if only etcd may have the state. The snapshot is
// as that of waitFor.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.GetList; compare at each upgrade.
func (s *Store) waitForList(ctx context.Context, exact int64, l *listRequest, opts storage.ListOptions) (*cache.Snapshot, error) {
	if exact != 0 {
		// A number beyond etcd's range is below 0 here, and as unsigned it is too large.
		if (s.cfg.LikeEtcd || !opts.Recursive) && !s.hasRevision(uint64(exact)) {
			// It is etcd's to refuse, which it does immediately.
			return nil, cache.ErrExpired
		}
		return nil, s.waitAtLeast(ctx, uint64(exact))
	}
	resourceVersion := opts.ResourceVersion
	if opts.Recursive && opts.Predicate.Continue != "" {
		// The token of a list whose revision was compacted continues in the newest state.
		resourceVersion = ""
	}
	return s.waitFor(ctx, resourceVersion, s.costOf(l))
}

// newest returns proven, or the newest state if proven is nil.
func (s *Store) newest(proven *cache.Snapshot) cache.Snapshot {
	if proven != nil {
		return *proven
	}
	return s.cfg.Resource.Snapshot()
}

// snapshot returns the state that waitForList waited for, or cache.ErrExpired.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.watchCache.waitAndListExactRV; compare at each upgrade.
func (s *Store) snapshot(exact int64, proven *cache.Snapshot) (cache.Snapshot, error) {
	if exact == 0 {
		return s.newest(proven), nil
	}
	if exact < s.cfg.Etcd.CompactRevision() {
		// The list is expired even if the cache still has the events, as clients expect.
		return cache.Snapshot{}, cache.ErrExpired
	}
	return s.cfg.Resource.At(exact)
}

// errUnreadable means that a list holds an object that the cache cannot read. The list is
// then answered from etcd.
var errUnreadable = errors.New("stored object cannot be read")

// page describes a filled list, and what follows it.
type page struct {
	// last is the key of the last object in the list, relative to the resource's prefix.
	last string
	// total is the number of objects in the scope, selected or not, from the first
	// object of the page on.
	total int64
	// more says that further pages follow.
	more bool
	// plan is how the objects were found, and count how many are in the list.
	plan  cache.Plan
	count int
}

// fill puts the selected objects into a list, up to the limit.
func (s *Store) fill(ctx context.Context, l listRequest, list runtime.Object) (page, error) {
	items, err := itemsOf(list)
	if err != nil {
		return page{}, err
	}
	newItem := newItemFunc(list, items)
	candidates, plan := l.snapshot.Candidates(&l.query)
	p := page{total: int64(l.snapshot.Total(&l.query)), plan: plan}
	items.Set(reflect.MakeSlice(items.Type(), 0, itemCapacity(&l, int64(plan.Candidates))))
	for e, err := range s.entries(ctx, candidates, &l.selection, l.query.Limit) {
		if err != nil {
			return page{}, err
		}
		obj, err := s.decodeSelected(ctx, &l.selection, e, newItem)
		if err != nil {
			return page{}, err
		}
		if obj == nil {
			continue
		}
		items.Set(reflect.Append(items, reflect.ValueOf(obj).Elem()))
		p.last = e.Key
		p.count++
		if l.query.Limit > 0 && items.Len() >= l.query.Limit {
			p.more = l.snapshot.More(&l.query, e.Key)
			return p, nil
		}
	}
	return p, nil
}

// decodeSelected returns the decoded object if the predicate selects it, else nil. It returns
// nil for an object that the reader is not shown, too. It fails once the context has ended, so
// that a list without a reader ends early.
func (s *Store) decodeSelected(ctx context.Context, sel *selection, e *entry.Entry, newItem func() runtime.Object) (runtime.Object, error) {
	omits := s.omits(ctx)
	if e.Err != nil && omits {
		return nil, nil
	}
	if e.Err != nil {
		return nil, errUnreadable
	}
	obj, err := s.ifSelected(sel, e, func() (obj runtime.Object, err error) {
		if ctx.Err() != nil {
			return nil, storage.NewTimeoutError(s.cfg.Resource.Prefix()+e.Key, "request did not complete within requested timeout")
		}
		err = e.Read(func(value []byte) error {
			obj, err = s.decoder.DecodeListItem(ctx, value, uint64(e.Revision), newItem)
			return err
		})
		return obj, err
	})
	if omits && ctx.Err() == nil && !s.shows(e, obj, err) {
		return nil, nil
	}
	return obj, err
}

// itemCapacity returns the capacity of a list's slice of items: the size of the result if that
// is known. total is the number of candidates. With a selector, which may leave the slice nearly
// empty, the capacity is bounded.
func itemCapacity(l *listRequest, total int64) int {
	const atMost = 2048
	n := total
	if l.query.Limit > 0 {
		n = min(n, int64(l.query.Limit))
	}
	if !l.selection.empty() {
		n = min(n, atMost)
	}
	return int(n)
}

// itemsOf returns the slice of items of a list.
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

// newItemFunc returns a function that makes empty items of a list. An unstructured item
// gets the list's version, to which it is decoded.
//
// Upstream: k8s.io/apiserver/pkg/storage/etcd3.getNewItemFunc; compare at each upgrade.
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
