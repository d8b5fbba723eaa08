package informers

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
)

// follower lists once and then watches. After the end of a watch it resumes
// from the resource version of the last event. It applies the events to the
// list and records impossible events.
type follower struct {
	spec
	calls *calls

	mu struct {
		sync.Mutex
		contents map[string]string
		last     uint64 // resource version
		wrong    []string
	}
}

type followers []*follower

// follow starts a follower for each spec. They run until the test ends.
func (cl *cluster) follow(all []spec) followers {
	cl.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	cl.t.Cleanup(func() { cancel(); running.Wait() })
	s := newSources(cl)
	var made followers
	for _, one := range all {
		f := &follower{spec: one, calls: &calls{}}
		f.mu.contents = map[string]string{}
		source := s.listWatch(one, f.calls)
		list, err := source.ListWithContextFunc(ctx, metav1.ListOptions{})
		check(cl.t, err)
		version, err := f.replace(list)
		check(cl.t, err)
		watching, err := toolswatch.NewRetryWatcherWithContext(ctx, version, source)
		check(cl.t, err)
		running.Go(func() {
			for event := range watching.ResultChan() {
				f.apply(event)
			}
			<-watching.Done()
		})
		made = append(made, f)
	}
	return made
}

// replace replaces the state by a list and returns the list's resource version.
func (f *follower) replace(list runtime.Object) (version string, err error) {
	of, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	if f.mu.last, err = strconv.ParseUint(of.GetResourceVersion(), 10, 64); err != nil {
		return "", err
	}
	return of.GetResourceVersion(), meta.EachListItem(list, func(item runtime.Object) error {
		o, err := meta.Accessor(item)
		if err == nil {
			f.mu.contents[key(o)] = o.GetResourceVersion()
		}
		return err
	})
}

// apply applies an event.
func (f *follower) apply(event watch.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if event.Type == watch.Error {
		f.wrongLocked("ended with: %v", apierrors.FromObject(event.Object))
		return
	}
	o, err := meta.Accessor(event.Object)
	if err != nil {
		f.wrongLocked("%s of no object: %v", event.Type, err)
		return
	}
	revision, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	_, had := f.mu.contents[key(o)]
	if err != nil || revision <= f.mu.last || had == (event.Type == watch.Added) {
		f.wrongLocked("%s of %s at %s after %d, was there before: %t", event.Type, key(o), o.GetResourceVersion(), f.mu.last, had)
	}
	f.mu.last = revision
	if event.Type == watch.Deleted {
		delete(f.mu.contents, key(o))
		return
	}
	f.mu.contents[key(o)] = o.GetResourceVersion()
}

func (f *follower) wrongLocked(format string, args ...any) {
	f.mu.wrong = append(f.mu.wrong, fmt.Sprintf("%s watch of %s: ", f.form, f.scope)+fmt.Sprintf(format, args...))
}

// checkEvents fails the test if there were impossible events.
func (all followers) checkEvents(t *testing.T) {
	t.Helper()
	count, first := 0, ""
	for _, f := range all {
		f.mu.Lock()
		if count += len(f.mu.wrong); first == "" && len(f.mu.wrong) > 0 {
			first = f.mu.wrong[0]
		}
		f.mu.wrong = nil
		f.mu.Unlock()
	}
	if count > 0 {
		t.Errorf("%d wrong events, such as: %s", count, first)
	}
}

func (all followers) mirrors() (mirrors []mirror) {
	for _, f := range all {
		mirrors = append(mirrors, mirror{string(f.form) + " watch", f.scope, func(context.Context) (map[string]string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return maps.Clone(f.mu.contents), nil
		}})
	}
	return mirrors
}

func (all followers) calls() (sum callTally) {
	for _, f := range all {
		sum = sum.plus(f.calls)
	}
	return sum
}
