package openapi

import (
	"container/list"
	"fmt"
	"maps"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/internal/encode"
)

// form is a version of OpenAPI in one media type.
type form uint8

const (
	v2JSON form = iota
	v2Proto
	v3JSON
	v3Proto
)

// fragment is what belongs to one owner in documents of one form: entries of
// their paths and of their schemas.
type fragment struct {
	paths, schemas encode.Piece
}

func (f fragment) cost() int64 { return f.paths.Cost() + f.schemas.Cost() + fragmentCost }

// withS2 is the fragment in s2 besides.
func (f fragment) withS2() (fragment, error) {
	var err error
	if f.paths, err = f.paths.WithS2(); err != nil {
		return fragment{}, fmt.Errorf("compress paths: %w", err)
	}
	if f.schemas, err = f.schemas.WithS2(); err != nil {
		return fragment{}, fmt.Errorf("compress schemas: %w", err)
	}
	return f, nil
}

// fragmentCost is about what a fragment takes besides its bytes.
const fragmentCost = 400

// fragmentKey says whose fragment it is.
type fragmentKey struct {
	form  form
	owner string
	// version is that of a v3 document; v2 has all versions in one.
	version string
}

// fragments keeps fragments within a budget of bytes. Those that were not read
// for longest go first. Who asks for one that is not there builds it while
// others that want it wait.
type fragments struct {
	limit int64
	mu    struct {
		sync.Mutex
		used  int64
		byKey map[fragmentKey]*list.Element // of *kept
		// most is how many there were in this map, which keeps the room for them.
		most int
		// recent has the last one read in front.
		recent *list.List
		making map[fragmentKey]*fragmentBuild
	}
}

// cachedFragment is a fragment of the content that tag identifies.
type cachedFragment struct {
	key      fragmentKey
	tag      uint64
	fragment fragment
	// plainRead is set when its plain text was asked for, and tried when it was made in s2,
	// whether there was room to keep that or not.
	plainRead, s2Tried bool
}

type fragmentBuild struct {
	tag      uint64
	done     chan struct{}
	fragment fragment
	err      error
}

// shrunk is the part of its entries that a map has left when a smaller one takes its
// place.
const shrunk = 8

func newFragments(limit int64) *fragments {
	f := &fragments{limit: limit}
	f.mu.byKey = map[fragmentKey]*list.Element{}
	f.mu.recent = list.New()
	f.mu.making = map[fragmentKey]*fragmentBuild{}
	return f
}

// find returns the fragment of what tag identifies if it is there. It reports slow
// for one whose plain text was asked for before, which is worth quicken.
func (f *fragments) find(key fragmentKey, tag uint64, plain bool) (found fragment, ok, slow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.findLocked(key, tag)
	if k == nil {
		return fragment{}, false, false
	}
	slow = plain && k.plainRead && !k.s2Tried && f.mu.used+k.fragment.cost() <= f.limit
	k.plainRead, k.s2Tried = k.plainRead || plain, k.s2Tried || slow
	return k.fragment, true, slow
}

func (f *fragments) findLocked(key fragmentKey, tag uint64) *cachedFragment {
	e := f.mu.byKey[key]
	if e == nil || e.Value.(*cachedFragment).tag != tag {
		return nil
	}
	f.mu.recent.MoveToFront(e)
	return e.Value.(*cachedFragment)
}

// addS2 keeps a fragment in s2 besides if there is still room then: nothing is
// dropped for it, since what is dropped takes longer to make.
func (f *fragments) addS2(key fragmentKey, tag uint64, slow fragment) (fragment, error) {
	quick, err := slow.withS2()
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

// get returns the fragment of what tag identifies.
func (f *fragments) get(key fragmentKey, tag uint64, build func() (fragment, error)) (fragment, error) {
	for {
		f.mu.Lock()
		if k := f.findLocked(key, tag); k != nil {
			f.mu.Unlock()
			return k.fragment, nil
		}
		m := f.mu.making[key]
		if m == nil {
			m = &fragmentBuild{tag: tag, done: make(chan struct{})}
			f.mu.making[key] = m
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

func (f *fragments) build(key fragmentKey, m *fragmentBuild, build func() (fragment, error)) (fragment, error) {
	m.fragment, m.err = buildOrLeaveOut(key, build)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.making, key)
	close(m.done)
	if m.err == nil {
		f.keepLocked(&cachedFragment{key: key, tag: m.tag, fragment: m.fragment})
	}
	return m.fragment, m.err
}

// buildOrLeaveOut leaves out what makes a builder panic: it must not take the server
// along, nor those who wait.
func buildOrLeaveOut(key fragmentKey, build func() (fragment, error)) (made fragment, err error) {
	defer func() {
		if p := recover(); p != nil {
			klog.ErrorS(nil, "A custom resource is missing in OpenAPI: its builder panics", "name", key.owner, "version", key.version, "panic", p)
		}
	}()
	return build()
}

func (f *fragments) keepLocked(k *cachedFragment) {
	f.dropLocked(f.mu.byKey[k.key])
	if k.fragment.cost() > f.limit {
		return
	}
	f.mu.used += k.fragment.cost()
	f.mu.byKey[k.key] = f.mu.recent.PushFront(k)
	f.mu.most = max(f.mu.most, len(f.mu.byKey))
	for f.mu.used > f.limit {
		f.dropLocked(f.mu.recent.Back())
	}
}

func (f *fragments) dropLocked(e *list.Element) {
	if e == nil {
		return
	}
	k := f.mu.recent.Remove(e).(*cachedFragment)
	delete(f.mu.byKey, k.key)
	f.mu.used -= k.fragment.cost()
	if few := len(f.mu.byKey); few < f.mu.most/shrunk {
		smaller := make(map[fragmentKey]*list.Element, few)
		maps.Copy(smaller, f.mu.byKey)
		f.mu.byKey, f.mu.most = smaller, few
	}
}

// fragmentRequest is a fragment of a document, and how it is built.
type fragmentRequest struct {
	key   fragmentKey
	tag   uint64
	build func() (fragment, error)
}

// all returns what is wanted, as plain text or deflated, and builds what is not
// there on all processors. One without a build is empty.
func (f *fragments) all(want []fragmentRequest, plain bool) ([]fragment, error) {
	found := make([]fragment, len(want))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, w := range want {
		if w.build == nil {
			continue
		}
		var ok, slow bool
		if found[i], ok, slow = f.find(w.key, w.tag, plain); ok && !slow {
			continue
		}
		group.Go(func() (err error) {
			if slow {
				found[i], err = f.addS2(w.key, w.tag, found[i])
			} else {
				found[i], err = f.get(w.key, w.tag, w.build)
			}
			return err
		})
	}
	return found, group.Wait()
}

// forget drops all of an owner that is gone.
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

func (f *fragments) bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.used
}
