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

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// GetList implements storage.Interface.
func (s *Store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	l, err := s.locate(ctx, key, opts)
	var p page
	if err == nil {
		p, err = s.fill(ctx, l, opts, list)
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
	return s.versioner.UpdateList(list, uint64(l.snapshot.Revision), token, remaining)
}

// Select finds what a list asks for, without decoding it. An error that wraps
// cache.ErrExpired says that only etcd may have it; others are as GetList's.
// The store must tell what the predicate asks for (CoversPredicate).
func (s *Store) Select(ctx context.Context, key string, opts storage.ListOptions) (cache.Page, error) {
	l, err := s.locate(ctx, key, opts)
	if err != nil {
		return cache.Page{}, err
	}
	found := l.snapshot.Select(&l.query)
	result := cache.Page{Selection: found, Revision: l.snapshot.Revision, Waited: l.waited}
	if !found.Opaque {
		result.Continue, result.Remaining, err = s.token(l, page{last: found.Last, total: int64(found.Total), more: found.More}, opts)
	}
	return result, err
}

// listRequest is a list request that has been understood.
type listRequest struct {
	scope    scope
	snapshot cache.Snapshot
	query    cache.Query
	// waited is how long a state that is fresh enough was waited for.
	waited time.Duration
}

// locate finds the state and the part of it that a list asks for. It returns
// cache.ErrExpired if only etcd may have them.
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
	if !ok || hasShardSelector(opts) {
		return l, fmt.Errorf("list %s: %w", key, cache.ErrExpired)
	}
	from = sc.continueAt(strings.TrimPrefix(from, s.cfg.Resource.Prefix()))
	l.query = cache.Query{Prefix: sc.key, Single: !sc.recursive, From: from, Limit: int(opts.Predicate.Limit)}
	l.query.Labels, l.query.Fields, _ = s.selectors(&opts.Predicate)
	if opts.ResourceVersion == "0" && !s.cfg.LikeEtcd {
		// As in Kubernetes' watch cache, whose clients rely on whole lists.
		l.query.Limit = 0
	}
	if exact == 0 && opts.Predicate.Continue == "" {
		l.query.Within = s.indexedPart(opts.Predicate.Field)
	}
	began := time.Now()
	if err := s.waitForList(ctx, exact, opts); err != nil {
		return l, err
	}
	l.waited = time.Since(began)
	l.snapshot, err = s.snapshot(exact)
	return l, err
}

// indexedPart is the part of a field selector that Kubernetes' watch cache has an
// index of. A page that ends with the index's last object is the last page.
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

func (s *Store) token(l listRequest, p page, opts storage.ListOptions) (string, *int64, error) {
	return storage.PrepareContinueToken(s.cfg.Resource.Prefix()+p.last, l.scope.omittedPrefix(), l.snapshot.Revision, p.total, p.more, opts)
}

// waitForList waits for a state that a list asks for: that of an exact revision, or
// if exact is 0 one that is fresh enough. It returns cache.ErrExpired if only etcd
// may have it.
func (s *Store) waitForList(ctx context.Context, exact int64, opts storage.ListOptions) error {
	if exact != 0 {
		// It is below 0 if the client named what no revision can be.
		if (s.cfg.LikeEtcd || !opts.Recursive) && !s.hasRevision(uint64(exact)) {
			// etcd refuses it at once.
			return cache.ErrExpired
		}
		return s.waitAtLeast(ctx, uint64(exact))
	}
	resourceVersion := opts.ResourceVersion
	if opts.Recursive && opts.Predicate.Continue != "" {
		// A token of a list that was compacted away continues with the newest state.
		resourceVersion = ""
	}
	return s.waitFor(ctx, resourceVersion)
}

// snapshot returns the state that waitForList waited for, or cache.ErrExpired.
func (s *Store) snapshot(exact int64) (cache.Snapshot, error) {
	if exact == 0 {
		return s.cfg.Resource.Snapshot(), nil
	}
	if exact < s.cfg.Etcd.CompactRevision() {
		// Clients are told so even if the cache still has the events.
		return cache.Snapshot{}, cache.ErrExpired
	}
	return s.cfg.Resource.At(exact)
}

func hasShardSelector(opts storage.ListOptions) bool {
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
	// plan is how the objects were found, and count how many are in the list.
	plan  cache.Plan
	count int
}

// fill puts the selected objects into a list.
func (s *Store) fill(ctx context.Context, l listRequest, opts storage.ListOptions, list runtime.Object) (page, error) {
	items, err := itemsOf(list)
	if err != nil {
		return page{}, err
	}
	newItem := newItemFunc(list, items)
	candidates, plan := l.snapshot.Candidates(&l.query)
	p := page{total: int64(l.snapshot.Total(&l.query)), plan: plan}
	items.Set(reflect.MakeSlice(items.Type(), 0, itemCapacity(opts, int64(l.query.Limit), int64(plan.Candidates))))
	for e, err := range s.entries(ctx, candidates, &opts.Predicate, l.query.Limit) {
		if err != nil {
			return page{}, err
		}
		obj, err := s.decodeSelected(ctx, &opts.Predicate, e, newItem)
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

// decodeSelected returns the decoded object if the predicate selects it, else nil.
func (s *Store) decodeSelected(ctx context.Context, p *storage.SelectionPredicate, e *resource.Entry, newItem func() runtime.Object) (runtime.Object, error) {
	if e.Err != nil {
		return nil, errUnreadable
	}
	return s.ifSelected(p, e, func() (obj runtime.Object, err error) {
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

// itemCapacity avoids both growing and large slices that a selector leaves empty.
func itemCapacity(opts storage.ListOptions, limit, total int64) int {
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
