// Package etcdtruth records the objects in etcd and their changes, against which package
// watchcheck validates watches. It is for tests that have a client of etcd.
package etcdtruth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// Resource describes where etcd stores the objects of a resource, and the
// fields that selectors can use.
type Resource struct {
	Name string
	// Prefix is the common prefix of the keys. It begins and ends with a slash.
	Prefix string
	// Fields are the selectable fields besides name and namespace. Each is a
	// path, optionally followed by an equals sign and a default.
	Fields []string
	// Aliases maps further names of fields to paths in Fields.
	Aliases map[string]string
}

// Follower records the changes in etcd. It watches all keys, not only the keys of
// its resources: an event with a higher revision is its proof that no change of
// a lower revision is missing.
type Follower struct {
	resources []Resource
	mu        struct {
		sync.Mutex
		truths  map[string]*watchcheck.Truth                    // by resource
		now     map[string]map[watchcheck.Key]*watchcheck.State // by resource: the present objects
		through int64                                           // the revision of the last event
		err     error
	}
}

// Follow reads the current objects, and records changes in a goroutine until ctx ends.
func Follow(ctx context.Context, etcd *clientv3.Client, resources []Resource) (*Follower, error) {
	f := &Follower{resources: resources}
	f.mu.truths, f.mu.now = map[string]*watchcheck.Truth{}, map[string]map[watchcheck.Key]*watchcheck.State{}
	first, err := etcd.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("read revision: %w", err)
	}
	revision := first.Header.Revision
	for _, r := range resources {
		all, err := etcd.Get(ctx, r.Prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", r.Name, err)
		}
		now := map[watchcheck.Key]*watchcheck.State{}
		for _, kv := range all.Kvs {
			if now[r.key(kv.Key)], err = r.decode(kv); err != nil {
				return nil, err
			}
		}
		f.mu.now[r.Name] = now
		f.mu.truths[r.Name] = &watchcheck.Truth{From: revision, Initial: maps.Clone(now), Through: revision}
	}
	f.mu.through = revision
	events := etcd.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision+1))
	go f.run(events)
	return f, nil
}

func (f *Follower) run(events clientv3.WatchChan) {
	for response := range events {
		f.mu.Lock()
		f.mu.err = errors.Join(f.mu.err, response.Err(), f.applyLocked(&response))
		f.mu.Unlock()
	}
}

// applyLocked records the changes in a response of the watch.
func (f *Follower) applyLocked(response *clientv3.WatchResponse) error {
	for _, event := range response.Events {
		for i := range f.resources {
			r := &f.resources[i]
			if !strings.HasPrefix(string(event.Kv.Key), r.Prefix) {
				continue
			}
			c := watchcheck.Change{Revision: event.Kv.ModRevision, Key: r.key(event.Kv.Key)}
			c.Before = f.mu.now[r.Name][c.Key]
			if event.Type != clientv3.EventTypeDelete {
				var err error
				if c.After, err = r.decode(event.Kv); err != nil {
					return err
				}
			}
			watchcheck.Apply(f.mu.now[r.Name], c.Key, c.After)
			f.mu.truths[r.Name].Changes = append(f.mu.truths[r.Name].Changes, c)
		}
		f.mu.through = max(f.mu.through, event.Kv.ModRevision)
	}
	return nil
}

const waitPeriod = 2 * time.Millisecond

// Wait blocks until all changes up to revision are recorded.
func (f *Follower) Wait(ctx context.Context, revision int64) error {
	ticker := time.NewTicker(waitPeriod)
	defer ticker.Stop()
	for {
		f.mu.Lock()
		through, err := f.mu.through, f.mu.err
		f.mu.Unlock()
		if err != nil || through >= revision {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("follow etcd to revision %d, is at %d: %w", revision, through, ctx.Err())
		}
	}
}

// Truth returns the changes of a resource that are recorded so far. The caller
// must not modify them.
func (f *Follower) Truth(resource string) *watchcheck.Truth {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := *f.mu.truths[resource]
	t.Changes, t.Through = slices.Clip(t.Changes), f.mu.through
	return &t
}

// Forget drops the changes up to a revision, which makes validation cheaper.
func (f *Follower) Forget(revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, t := range f.mu.truths {
		n := 0
		initial := maps.Clone(t.Initial)
		for ; n < len(t.Changes) && t.Changes[n].Revision <= revision; n++ {
			watchcheck.Apply(initial, t.Changes[n].Key, t.Changes[n].After)
		}
		f.mu.truths[name] = &watchcheck.Truth{From: max(t.From, revision), Initial: initial, Changes: t.Changes[n:], Through: t.Through}
	}
}

// key returns the object of an etcd key.
func (r *Resource) key(key []byte) watchcheck.Key {
	rest := strings.TrimPrefix(string(key), r.Prefix)
	if namespace, name, ok := strings.Cut(rest, "/"); ok {
		return watchcheck.Key{Namespace: namespace, Name: name}
	}
	return watchcheck.Key{Name: rest}
}

// decode returns the state of a stored object, which is protobuf for built-in kinds and JSON for
// custom resources.
func (r *Resource) decode(kv *mvccpb.KeyValue) (*watchcheck.State, error) {
	u := &unstructured.Unstructured{}
	if len(kv.Value) > 0 && kv.Value[0] == '{' {
		if err := json.Unmarshal(kv.Value, &u.Object); err != nil {
			return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
		}
	} else {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(kv.Value, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
		}
		if u.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
			return nil, fmt.Errorf("read %s: %w", kv.Key, err)
		}
	}
	s := &watchcheck.State{Revision: kv.ModRevision, Labels: u.GetLabels(), Fields: fields.Set{"metadata.name": u.GetName()}, UID: u.GetUID()}
	if u.GetNamespace() != "" {
		s.Fields["metadata.namespace"] = u.GetNamespace()
	}
	for _, field := range r.Fields {
		path, value, _ := strings.Cut(field, "=")
		if found, ok, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...); ok && err == nil {
			value = fmt.Sprint(found)
		}
		s.Fields[path] = value
	}
	for alias, field := range r.Aliases {
		s.Fields[alias] = s.Fields[field]
	}
	return s, nil
}
