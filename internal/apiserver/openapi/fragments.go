package openapi

import (
	"container/list"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/account/panics"
)

// fragments is a cache of fragments with a limit in bytes. The least recently read are
// dropped first.
//
// The first goroutine that asks for a missing fragment builds it, outside the lock.
// Others that want the same fragment wait for it. Documents that are being sent keep
// their fragments beyond the limit.
type fragments struct {
	limit  int64
	logger *slog.Logger
	panics *panics.Counter
	mu     struct {
		sync.Mutex
		used  int64
		byKey map[fragmentKey]*list.Element // of *cachedFragment
		// peak is the largest number of entries that byKey had. A Go map keeps the memory
		// of its peak.
		peak int
		// recent has the most recently read fragment in front.
		recent   *list.List
		building map[fragmentKey]*fragmentBuild
	}
}

// cachedFragment is a fragment of the content that tag identifies.
type cachedFragment struct {
	key      fragmentKey
	tag      uint64
	fragment fragment
	// plainRead is set once the plain text was asked for, s2Tried once it was encoded in
	// s2, whether there was room for that or not.
	plainRead, s2Tried bool
}

// fragmentBuild is a build under way. fragment and err are set when done is closed.
type fragmentBuild struct {
	tag      uint64
	done     chan struct{}
	fragment fragment
	err      error
}

// shrinkDivisor is the part of its peak below which byKey is replaced by a smaller map.
const shrinkDivisor = 8

func newFragments(limit int64, logger *slog.Logger, panics *panics.Counter) *fragments {
	f := &fragments{limit: limit, logger: logger, panics: panics}
	f.mu.byKey = map[fragmentKey]*list.Element{}
	f.mu.recent = list.New()
	f.mu.building = map[fragmentKey]*fragmentBuild{}
	return f
}

// find returns a fragment if it is cached with this tag. wantsS2 says that addS2 is worth
// its cost: the plain text was asked for before, and there is room.
func (f *fragments) find(key fragmentKey, tag uint64, plain bool) (found fragment, ok, wantsS2 bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.findLocked(key, tag)
	if k == nil {
		return fragment{}, false, false
	}
	wantsS2 = plain && k.plainRead && !k.s2Tried && f.mu.used+k.fragment.cost() <= f.limit
	k.plainRead, k.s2Tried = k.plainRead || plain, k.s2Tried || wantsS2
	return k.fragment, true, wantsS2
}

// findLocked is find without statistics. It returns nil if the fragment is not there.
func (f *fragments) findLocked(key fragmentKey, tag uint64) *cachedFragment {
	e := f.mu.byKey[key]
	if e == nil || e.Value.(*cachedFragment).tag != tag {
		return nil
	}
	f.mu.recent.MoveToFront(e)
	return e.Value.(*cachedFragment)
}

// addS2 returns a fragment with s2, and caches it if there is still room. Nothing is
// dropped for it, because a dropped fragment takes longer to build.
func (f *fragments) addS2(key fragmentKey, tag uint64, deflated fragment) (fragment, error) {
	quick, err := deflated.withS2()
	if err != nil {
		return fragment{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.findLocked(key, tag)
	if k == nil {
		return quick, nil
	}
	if more := quick.cost() - k.fragment.cost(); f.mu.used+more <= f.limit {
		f.mu.used += more
		k.fragment = quick
	}
	return quick, nil
}

// get returns a fragment, and builds it if it is not cached with this tag.
func (f *fragments) get(key fragmentKey, tag uint64, build func() (fragment, error)) (fragment, error) {
	for {
		f.mu.Lock()
		if k := f.findLocked(key, tag); k != nil {
			f.mu.Unlock()
			return k.fragment, nil
		}
		m := f.mu.building[key]
		if m == nil {
			m = &fragmentBuild{tag: tag, done: make(chan struct{})}
			f.mu.building[key] = m
			f.mu.Unlock()
			return f.build(key, m, build)
		}
		f.mu.Unlock()
		<-m.done
		if m.tag == tag {
			return m.fragment, m.err
		}
	}
}

// build builds a fragment and wakes the goroutines that wait for it.
func (f *fragments) build(key fragmentKey, m *fragmentBuild, build func() (fragment, error)) (fragment, error) {
	m.fragment, m.err = f.buildOrLeaveOut(key, build)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.building, key)
	close(m.done)
	if m.err == nil {
		f.keepLocked(&cachedFragment{key: key, tag: m.tag, fragment: m.fragment})
	}
	return m.fragment, m.err
}

// buildOrLeaveOut returns an empty fragment if the builder panics, which must end neither
// the server nor other requests.
func (f *fragments) buildOrLeaveOut(key fragmentKey, build func() (fragment, error)) (made fragment, err error) {
	defer func() {
		if p := recover(); p != nil {
			_ = f.panics.Recovered(panics.OpenAPI, p)
			f.logger.Error("A custom resource is missing in OpenAPI: its builder panics", "name", key.owner, "version", key.version, "panic", p)
		}
	}()
	return build()
}

// keepLocked caches a fragment and drops others beyond the limit.
func (f *fragments) keepLocked(k *cachedFragment) {
	f.dropLocked(f.mu.byKey[k.key])
	if k.fragment.cost() > f.limit {
		return
	}
	f.mu.used += k.fragment.cost()
	f.mu.byKey[k.key] = f.mu.recent.PushFront(k)
	f.mu.peak = max(f.mu.peak, len(f.mu.byKey))
	for f.mu.used > f.limit {
		f.dropLocked(f.mu.recent.Back())
	}
}

// dropLocked drops an element of recent. It ignores nil.
func (f *fragments) dropLocked(e *list.Element) {
	if e == nil {
		return
	}
	k := f.mu.recent.Remove(e).(*cachedFragment)
	delete(f.mu.byKey, k.key)
	f.mu.used -= k.fragment.cost()
	if few := len(f.mu.byKey); few < f.mu.peak/shrinkDivisor {
		smaller := make(map[fragmentKey]*list.Element, few)
		maps.Copy(smaller, f.mu.byKey)
		f.mu.byKey, f.mu.peak = smaller, few
	}
}

// fragmentRequest names a fragment of a document and says how to build it. Without build
// it asks for an empty fragment.
type fragmentRequest struct {
	key   fragmentKey
	tag   uint64
	build func() (fragment, error)
}

// all returns the requested fragments and builds missing ones on all processors. plain
// says that their text will be inflated. A fragment is empty if its definition cannot be read.
func (f *fragments) all(want []fragmentRequest, plain bool) ([]fragment, error) {
	found := make([]fragment, len(want))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, w := range want {
		if w.build == nil {
			continue
		}
		var ok, wantsS2 bool
		if found[i], ok, wantsS2 = f.find(w.key, w.tag, plain); ok && !wantsS2 {
			continue
		}
		group.Go(func() (err error) {
			if wantsS2 {
				found[i], err = f.addS2(w.key, w.tag, found[i])
			} else {
				found[i], err = f.get(w.key, w.tag, w.build)
			}
			if errors.Is(err, errUnreadable) {
				// It is not kept: the definition may be readable the next time.
				f.logger.Error("A custom resource is missing in OpenAPI: its definition cannot be read", "name", w.key.owner, "version", w.key.version, "err", err)
				return nil
			}
			return err
		})
	}
	return found, group.Wait()
}

// forget drops the fragments of a definition, which has had these versions.
func (f *fragments) forget(owner string, versions []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, form := range []form{v2JSON, v2Proto} {
		f.dropLocked(f.mu.byKey[fragmentKey{form, owner, ""}])
	}
	for _, version := range versions {
		for _, form := range []form{v3JSON, v3Proto} {
			f.dropLocked(f.mu.byKey[fragmentKey{form, owner, version}])
		}
	}
}

// bytes returns the memory of the cached fragments.
func (f *fragments) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.used
}
