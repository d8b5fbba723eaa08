package scrub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// pass is the place of the slow comparison with etcd. The zero value is at its beginning.
type pass struct {
	// prefix is the prefix of the resource whose page is next, and from is the key at
	// which that page begins.
	prefix, from string
}

// next returns the resource of the next page: the resource of the place, or the resource after
// it. It sorts all, which must not be empty.
func (p *pass) next(all []*cache.Resource) *cache.Resource {
	slices.SortFunc(all, func(a, b *cache.Resource) int { return strings.Compare(a.Prefix(), b.Prefix()) })
	i, found := slices.BinarySearchFunc(all, p.prefix, func(r *cache.Resource, prefix string) int { return strings.Compare(r.Prefix(), prefix) })
	if i == len(all) {
		i, found = 0, false
	}
	if !found {
		p.prefix, p.from = all[i].Prefix(), ""
	}
	return all[i]
}

// pagePause returns the time between two turns of the pass.
func (s *Scrubber) pagePause() time.Duration {
	all := s.all()
	turns := 1 + 2*len(all)/turnRequests // keys of no resource lie between the keys of two resources
	for _, r := range all {
		turns += r.Snapshot().Len() / pageObjects
	}
	return min(max(s.cfg.Pass/time.Duration(turns), minPagePause), maxPagePause)
}

// compareTurn compares the next pages of the pass, with values. They are one page of a
// large resource, or small resources that together have no more objects than a page.
func (s *Scrubber) compareTurn(ctx context.Context, p *pass) {
	for requests, room := 0, pageObjects; requests < min(turnRequests, 2*len(s.all())) && room > 0; requests++ {
		compared, ok := s.comparePage(ctx, p)
		if !ok {
			return
		}
		room -= compared
		if next := p.next(s.all()); next.Prefix() != "" && next.Snapshot().Len() > room {
			return
		}
	}
}

// comparePage compares the next page of the pass, and returns the number of its objects. If
// the page differs, it repairs the resource. It returns false if the page differs, or after an
// error. After cache.ErrExpired it goes on with the next page.
func (s *Scrubber) comparePage(ctx context.Context, p *pass) (objects int, ok bool) {
	r := p.next(s.all())
	page := page{from: p.from, values: true}
	found, err := s.confirm(ctx, r, &page)
	if err != nil && !errors.Is(err, cache.ErrExpired) {
		return 0, false // the feed reports it; the same page is next
	}
	if p.from = page.keys.End; page.last {
		p.prefix, p.from = r.Prefix()+"\x00", ""
	}
	if len(found) > 0 {
		s.repair(ctx, r, found, true)
	}
	return page.objects, len(found) == 0
}

// compareResource compares all keys of a resource with etcd, or all keys and values. The
// result has some of the differences.
func (s *Scrubber) compareResource(ctx context.Context, r *cache.Resource, values bool) (found []cache.Difference, err error) {
	for from, last := "", false; !last && len(found) < maxNamed; {
		page := page{from: from, values: values}
		some, err := s.confirm(ctx, r, &page)
		if err != nil {
			return found, err
		}
		found, from, last = append(found, some...), page.keys.End, page.last
	}
	return found, nil
}

// confirm compares a page of keys with etcd. If something differs, it compares the page again,
// and returns what differs then.
func (s *Scrubber) confirm(ctx context.Context, r *cache.Resource, p *page) ([]cache.Difference, error) {
	found, err := s.compare(ctx, r, p)
	if len(found) == 0 || err != nil {
		return nil, err
	}
	return s.compare(ctx, r, p)
}

// compare reads a page of keys from etcd at its newest revision, waits until the cache
// has reached that, and compares.
func (s *Scrubber) compare(ctx context.Context, r *cache.Resource, p *page) ([]cache.Difference, error) {
	resp, err := s.read(ctx, r, p)
	if err != nil {
		return nil, err
	}
	if err := s.waitFor(ctx, resp.Header.Revision); err != nil {
		return nil, err
	}
	s.cfg.Metrics.compared.Add(float64(len(resp.Kvs)))
	return s.cfg.Cache.Compare(ctx, r, &cache.StoredRange{KeyRange: p.keys, Revision: resp.Header.Revision, Objects: etcdfeed.Objects(resp.Kvs), Values: p.values})
}

// page is some keys of a resource, as etcd has them at a revision. read sets the fields after
// values.
type page struct {
	// from is where the page begins. Empty is the resource's first key.
	from string
	// revision is the revision to read at. It is 0 for the newest.
	revision int64
	// values says that values are read too.
	values bool

	// keys is the range of keys that was read.
	keys cache.KeyRange
	// objects is the number of objects in keys.
	objects int
	// last says that no key of the resource is after keys.
	last bool
}

// read reads a page. etcd counts all keys of a range, however few are asked for. So the
// range ends where the cache has enough objects. The limit is for an etcd that has more.
func (s *Scrubber) read(ctx context.Context, r *cache.Resource, p *page) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if r.Prefix() == "" {
		p.keys, p.last = s.cfg.Cache.NextUnclaimedRange(s.cfg.Prefix, p.from, pageObjects)
	} else {
		p.keys, p.last = r.NextRange(p.from, pageObjects)
	}
	options := []clientv3.OpOption{clientv3.WithRange(p.keys.End), clientv3.WithLimit(2 * pageObjects), clientv3.WithRev(p.revision)}
	if !p.values {
		options = append(options, clientv3.WithKeysOnly())
	}
	resp, err := s.cfg.Client.Get(ctx, p.keys.From, options...)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", nameOf(r), err)
	}
	p.objects = len(resp.Kvs)
	if resp.More {
		p.keys.End, p.last = string(resp.Kvs[len(resp.Kvs)-1].Key)+"\x00", false
	}
	return resp, nil
}

// waitFor waits until the cache has everything that etcd has now. revision, which etcd has
// reached, names what is waited for in the error.
func (s *Scrubber) waitFor(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if _, err := s.cfg.Consistent.Wait(ctx); err != nil {
		return fmt.Errorf("wait for revision %d: %w", revision, err)
	}
	return nil
}
