package informers

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	// writers share perSecond writes. Each writer has objects of its own.
	writers   = 4
	perSecond = 40
	// writeTimeout bounds a write to a server that was stopped.
	writeTimeout = 10 * time.Second
)

// slot is a name that an object may have. The object need not exist.
type slot struct {
	kind            kind
	namespace, name string
}

// churn writes at random. It only knows roughly which objects exist, since the
// server restarts during the writes.
type churn struct {
	client dynamic.Interface
	slots  []slot
	// exists tells by slot index whether the object probably exists. Slot i
	// belongs to writer i modulo writers: no lock guards it.
	exists []bool
	serial atomic.Int64

	written, failed atomic.Int64
}

func newRand(seed int64) *rand.Rand { return rand.New(rand.NewSource(seed)) }

// newChurn makes slots: this many names of each kind in each namespace.
func newChurn(client dynamic.Interface, names int) *churn {
	c := &churn{client: client}
	for n := range names {
		for _, k := range kinds() {
			if !k.namespaced {
				c.slots = append(c.slots, slot{k, "", objectName(n)})
				continue
			}
			for ns := range namespaces {
				c.slots = append(c.slots, slot{k, namespace(ns), objectName(n)})
			}
		}
	}
	c.exists = make([]bool, len(c.slots))
	return c
}

func objectName(n int) string { return fmt.Sprintf("object-%d", n) }

// fill creates two thirds of the objects.
func (c *churn) fill(t *testing.T) {
	t.Helper()
	var group sync.WaitGroup
	for id := range writers {
		group.Go(func() {
			r := newRand(int64(id))
			for i := id; i < len(c.slots); i += writers {
				if r.Intn(3) > 0 {
					c.write(t.Context(), i, r)
				}
			}
		})
	}
	group.Wait()
	if failed := c.failed.Load(); failed > 0 {
		t.Fatalf("%d of %d first writes failed", failed, len(c.slots))
	}
}

// start writes until stop is called. stop waits for writes in flight.
func (c *churn) start(t *testing.T) (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	for id := range writers {
		group.Go(func() {
			r := newRand(c.serial.Add(1))
			ticker := time.NewTicker(writers * time.Second / perSecond)
			defer ticker.Stop()
			for {
				select {
				case <-done:
					return
				case <-ticker.C:
					i := r.Intn(len(c.slots)/writers)*writers + id
					c.write(t.Context(), i, r)
				}
			}
		})
	}
	var once sync.Once
	return func() {
		once.Do(func() { close(done) })
		group.Wait()
	}
}

// write creates the object of slot i if it does not exist. Otherwise it changes
// or deletes the object.
func (c *churn) write(ctx context.Context, i int, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	at := c.slots[i]
	objects := c.client.Resource(at.kind.resource).Namespace(at.namespace)
	var err error
	switch action := r.Intn(10); {
	case !c.exists[i]:
		if _, err = objects.Create(ctx, at.kind.make(at, r), metav1.CreateOptions{}); err == nil {
			c.exists[i] = true
		}
	case action < 4:
		patch := metadataPatch("annotations", "serial", fmt.Sprint(c.serial.Add(1)))
		_, err = objects.Patch(ctx, at.name, types.MergePatchType, encode(patch), metav1.PatchOptions{})
	case action < 8:
		err = c.move(ctx, at, r)
	default:
		if err = objects.Delete(ctx, at.name, metav1.DeleteOptions{}); err == nil {
			c.exists[i] = false
		}
	}
	switch {
	case err == nil:
		c.written.Add(1)
	case apierrors.IsNotFound(err):
		c.exists[i] = false
	case apierrors.IsAlreadyExists(err):
		c.exists[i] = true
	default:
		c.failed.Add(1)
	}
}

// move changes the labels and fields that selectors use.
func (c *churn) move(ctx context.Context, at slot, r *rand.Rand) error {
	objects := c.client.Resource(at.kind.resource).Namespace(at.namespace)
	if at.kind.name == pods.name && r.Intn(2) == 0 {
		binding := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": at.name},
			"target": map[string]any{"kind": "Node", "name": host(r)},
		}}
		_, err := objects.Create(ctx, binding, metav1.CreateOptions{}, "binding")
		if apierrors.IsConflict(err) {
			return nil // The pod is already bound.
		}
		return err
	}
	patch := metadataPatch("labels", "team", team(r))
	if at.kind.name == nodes.name {
		patch["spec"] = map[string]any{"unschedulable": r.Intn(2) == 0}
	}
	_, err := objects.Patch(ctx, at.name, types.MergePatchType, encode(patch), metav1.PatchOptions{})
	return err
}

func metadataPatch(field, key, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{field: map[string]any{key: value}}}
}

func encode(patch map[string]any) []byte {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err) // Maps of strings always marshal.
	}
	return data
}
