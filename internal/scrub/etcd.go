package scrub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/cache"
)

// pass is the place of the slow comparison with etcd. The zero value is at its beginning.
type pass struct {
	// prefix is that of the resource, from the key at which its next page begins.
	prefix, from string
}

// next returns the resource of the next page: the one of the place, or the one behind it.
func (p *pass) next(all []*cache.Resource) *cache.Resource {
	slices.SortFunc(all, func(a, b *cache.Resource) int { return strings.Compare(a.Prefix(), b.Prefix()) })
	i, found := slices.BinarySearchFunc(all, p.prefix, func(r *cache.Resource, prefix string) int { return strings.Compare(r.Prefix(), prefix) })
	if i == len(all) {
		i, found = 0, false
	}
	if len(all) == 0 {
		return nil
	}
	if !found {
		p.prefix, p.from = all[i].Prefix(), ""
	}
	return all[i]
}

// pagePause is the time between two pages of the pass.
func (s *Scrubber) pagePause() time.Duration {
	pages := 1
	for _, r := range s.cfg.Cache.Resources() {
		pages += 1 + r.Snapshot().Len()/pageObjects
	}
	return min(max(s.cfg.Pass/time.Duration(pages), minPagePause), maxPagePause)
}

// comparePage compares the next page of the pass, with values.
func (s *Scrubber) comparePage(ctx context.Context, p *pass) {
	r := p.next(s.cfg.Cache.Resources())
	if r == nil {
		return
	}
	page := page{from: p.from, values: true}
	found, err := s.confirm(ctx, r, &page)
	if err != nil && !errors.Is(err, cache.ErrExpired) {
		return // etcd does not answer, which the feed reports; the same page is next
	}
	if p.from = page.keys.End; page.last {
		p.prefix, p.from = r.Prefix()+"\x00", ""
	}
	if len(found) > 0 {
		s.repair(ctx, r, found)
	}
}

// compareResource compares all keys of a resource with etcd. The result has some of the
// differences.
func (s *Scrubber) compareResource(ctx context.Context, r *cache.Resource) (found []cache.Difference, err error) {
	for from, last := "", false; !last && len(found) < maxNamed; {
		page := page{from: from}
		some, err := s.confirm(ctx, r, &page)
		if err != nil {
			return found, err
		}
		found, from, last = append(found, some...), page.keys.End, page.last
	}
	return found, nil
}

// confirm compares a page of keys with etcd, and returns what differs twice.
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
	return s.cfg.Cache.Compare(ctx, r, &cache.StoredRange{KeyRange: p.keys, Revision: resp.Header.Revision, KVs: resp.Kvs, Values: p.values})
}

// page is some keys of a resource, as etcd has them at a revision.
type page struct {
	// from is the first key. Empty is the resource's first.
	from string
	// revision is 0 for the newest. values says that values are read too.
	revision int64
	values   bool

	// keys are the keys that were read. last says that no key of the resource is behind
	// them.
	keys cache.KeyRange
	last bool
}

// read reads a page. etcd counts all keys of a range, however few are asked for, so the
// range ends where the cache has enough objects. The limit is for an etcd that has more.
func (s *Scrubber) read(ctx context.Context, r *cache.Resource, p *page) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	p.keys, p.last = r.NextRange(p.from, pageObjects)
	options := []clientv3.OpOption{clientv3.WithRange(p.keys.End), clientv3.WithLimit(2 * pageObjects), clientv3.WithRev(p.revision)}
	if !p.values {
		options = append(options, clientv3.WithKeysOnly())
	}
	resp, err := s.cfg.Client.Get(ctx, p.keys.From, options...)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", r.GroupResource(), err)
	}
	if resp.More {
		p.keys.End, p.last = string(resp.Kvs[len(resp.Kvs)-1].Key)+"\x00", false
	}
	return resp, nil
}

// waitFor waits until the cache has everything that etcd had at a revision.
func (s *Scrubber) waitFor(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if _, err := s.cfg.Consistent.Wait(ctx); err != nil {
		return fmt.Errorf("wait for revision %d: %w", revision, err)
	}
	return nil
}

// repair loads a resource anew, and has the server not ready meanwhile, for half an
// interval at least. found are some of the differences.
func (s *Scrubber) repair(ctx context.Context, r *cache.Resource, found []cache.Difference) {
	gr := r.GroupResource()
	s.setWrong(r, true)
	// A balancer asks every few seconds, and must see it. The load may take less.
	seen := time.NewTimer(s.cfg.Interval / 2)
	defer func() {
		select {
		case <-seen.C:
		case <-ctx.Done():
		}
		s.setWrong(r, false)
	}()
	s.cfg.Metrics.mismatches.WithLabelValues(gr.Group, gr.Resource).Inc()
	s.cfg.Logger.Error("The cache differs from etcd. The server is not ready until the resource is loaded anew; its watches end with 410",
		"resource", gr.String(), "objects", names(found))
	for attempt := 1; ctx.Err() == nil; {
		err := s.reload(ctx, r)
		if err == nil {
			found, err = s.compareResource(ctx, r)
		}
		switch {
		case err == nil && len(found) == 0 && r.HoldsDigest():
			s.cfg.Logger.Info("The cache is what etcd has again", "resource", gr.String())
			return
		case err == nil && attempt == maxAttempts:
			s.cfg.Logger.Error("The cache still differs from etcd after it was loaded anew, and is served all the same: check whether etcd's members agree",
				"resource", gr.String(), "objects", names(found))
			return
		case err == nil:
			attempt++
		default:
			s.cfg.Logger.Warn("Could not load a resource anew; it is tried again", "resource", gr.String(), "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func names(found []cache.Difference) string {
	var list []string
	for _, d := range found[:min(len(found), maxNamed)] {
		list = append(list, d.String())
	}
	return strings.Join(list, "; ")
}

// reload replaces the objects of a resource by those of etcd.
func (s *Scrubber) reload(ctx context.Context, r *cache.Resource) error {
	into := s.cfg.Cache.BeginReload(r)
	page := page{values: true}
	for !page.last {
		resp, err := s.read(ctx, r, &page)
		if err != nil {
			return err
		}
		if page.revision == 0 {
			page.revision = resp.Header.Revision
		}
		into.Add(ctx, resp.Kvs)
		page.from = page.keys.End
	}
	if err := s.waitFor(ctx, page.revision); err != nil {
		return err
	}
	return into.End(page.revision)
}
