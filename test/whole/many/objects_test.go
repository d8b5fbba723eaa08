package many

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// writers is the number of requests in flight.
const writers = 16

// objectsOfManyKinds applies objects, merges into each, applies a part of each
// as another field manager, and lists all. It changes the kind from object to
// object, so that a schema is never the last used one.
func (cl *cluster) objectsOfManyKinds(t *testing.T) {
	client, err := dynamic.NewForConfig(cl.Config())
	check(t, err)
	cl.each(t, "apply", func(ctx context.Context, i int) error {
		o := cl.object(i)
		_, err := cl.of(client, i).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "first"})
		return err
	})
	cl.withinBudget(t)
	cl.each(t, "merge", func(ctx context.Context, i int) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"merged": fmt.Sprint("no-", i)}}, "spec": map[string]any{"replicas": 1 + i%3}})
		if err != nil {
			return err
		}
		_, err = cl.of(client, i).Patch(ctx, cl.name(i), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "merger"})
		return err
	})
	cl.each(t, "apply a part", func(ctx context.Context, i int) error {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(cl.object(i).GroupVersionKind())
		o.SetAnnotations(map[string]string{"second": "yes"})
		_, err := cl.of(client, i).Apply(ctx, cl.name(i), o, metav1.ApplyOptions{FieldManager: "second"})
		return err
	})
	cl.withinBudget(t)
	cl.listed(t, client)
}

func (cl *cluster) name(i int) string { return fmt.Sprintf("object-%05d", i) }

// object returns object i. Its kind is i modulo the number of kinds.
func (cl *cluster) object(i int) *unstructured.Unstructured {
	return cl.made.CustomObjectOf(i%cl.kinds, "default", cl.name(i))
}

func (cl *cluster) of(client dynamic.Interface, i int) dynamic.ResourceInterface {
	d := cl.made.Definition(i % cl.kinds)
	return client.Resource(schema.GroupVersionResource{Group: d.Group, Version: "v1", Resource: d.Plural}).Namespace("default")
}

// each calls do for each object, several at a time.
func (cl *cluster) each(t *testing.T, what string, do func(context.Context, int) error) {
	t.Helper()
	began := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(writers)
	for i := range cl.objects {
		group.Go(func() error {
			if err := do(ctx, i); err != nil {
				return fmt.Errorf("%s of %s: %w", what, cl.name(i), err)
			}
			return nil
		})
	}
	check(t, group.Wait())
	t.Logf("%s: %d objects of %d kinds in %v", what, cl.objects, cl.kinds, time.Since(began).Round(time.Millisecond))
}

// withinBudget checks the memory that compiled schemas take.
func (cl *cluster) withinBudget(t *testing.T) {
	t.Helper()
	r := cl.costs(t)
	t.Logf("%d definitions, %d compiled: %d KiB of %d", r.Definitions, r.Compiled, r.CompiledBytes>>10, r.CompiledLimit>>10)
	if r.Definitions < cl.definitions || r.Compiled == 0 || r.CompiledBytes <= 0 || r.CompiledBytes > r.CompiledLimit {
		t.Errorf("compiled schemas are not within their budget: %+v", r)
	}
}

// listed checks that all objects contain the writes of all field managers.
func (cl *cluster) listed(t *testing.T, client dynamic.Interface) {
	t.Helper()
	for kind := range cl.kinds {
		list, err := cl.of(client, kind).List(t.Context(), metav1.ListOptions{})
		check(t, err)
		if want := (cl.objects - kind + cl.kinds - 1) / cl.kinds; len(list.Items) != want {
			t.Errorf("%s: %d objects, want %d", cl.made.Definition(kind).Plural, len(list.Items), want)
		}
		for at := range list.Items {
			if err := cl.complete(&list.Items[at], kind+at*cl.kinds); err != nil {
				t.Errorf("%s %s: %v", list.Items[at].GetKind(), list.Items[at].GetName(), err)
			}
		}
	}
}

// complete returns an error that says which fields object i lacks.
func (cl *cluster) complete(got *unstructured.Unstructured, i int) error {
	replicas, _, err := unstructured.NestedInt64(got.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	want := cl.object(i)
	class, _, _ := unstructured.NestedString(want.Object, "spec", "class")
	gotClass, _, _ := unstructured.NestedString(got.Object, "spec", "class")
	managers := ""
	for _, m := range got.GetManagedFields() {
		managers += m.Manager + "/" + string(m.Operation) + " "
	}
	for _, err := range []error{
		differ("name", got.GetName(), want.GetName()), differ("merged", got.GetLabels()["merged"], fmt.Sprint("no-", i)),
		differ("replicas", replicas, int64(1+i%3)), differ("class", gotClass, class), differ("second", got.GetAnnotations()["second"], "yes"),
		differ("managers", managers, "first/Apply second/Apply merger/Update "),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
