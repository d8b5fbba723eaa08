package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace/test/harness"
)

// widgets defines a resource with two versions. properties are those of spec.
func widgets(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
	validation := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type:       "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: properties}},
	}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.millrace.example"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "millrace.example", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true, Schema: validation},
				{Name: "v1beta1", Served: true, Schema: validation},
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
		},
	}
}

var text = apiextensionsv1.JSONSchemaProps{Type: "string"}

// custom are the clients of a test.
type custom struct {
	definitions *apiextensions.Clientset
	objects     dynamic.Interface
}

func newCustom(t *testing.T, s *harness.Server) custom {
	t.Helper()
	definitions, err := apiextensions.NewForConfig(s.Config())
	check(t, err)
	objects, err := dynamic.NewForConfig(s.Config())
	check(t, err)
	return custom{definitions, objects}
}

func (c custom) widgets(version string) dynamic.ResourceInterface {
	return c.objects.Resource(schema.GroupVersionResource{Group: "millrace.example", Version: version, Resource: "widgets"}).Namespace("default")
}

// define creates the definition and waits until both versions are served.
func (c custom) define(t *testing.T, properties map[string]apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	_, err := c.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), widgets(properties), metav1.CreateOptions{})
	check(t, err)
	for _, version := range []string{"v1", "v1beta1"} {
		eventually(t, func(ctx context.Context) error {
			_, err := c.widgets(version).List(ctx, metav1.ListOptions{})
			return err
		})
	}
}

func (c custom) create(t *testing.T, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	var made *unstructured.Unstructured
	// A definition that was just made takes a moment to accept writes.
	eventually(t, func(ctx context.Context) (err error) {
		made, err = c.widgets("v1").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "millrace.example/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": spec,
		}}, metav1.CreateOptions{})
		return err
	})
	return made
}

// serves expects widgets by name in both versions, got and listed.
func (c custom) serves(ctx context.Context, want map[string]string) error {
	for _, version := range []string{"v1", "v1beta1"} {
		for _, resourceVersion := range []string{"", "0"} {
			list, err := c.widgets(version).List(ctx, metav1.ListOptions{ResourceVersion: resourceVersion})
			if err != nil {
				return err
			}
			if len(list.Items) != len(want) {
				return fmt.Errorf("%s: %d items, want %d", version, len(list.Items), len(want))
			}
			for _, item := range list.Items {
				if err := widget(&item, version, want); err != nil {
					return fmt.Errorf("list: %w", err)
				}
			}
		}
		for name := range want {
			got, err := c.widgets(version).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := widget(got, version, want); err != nil {
				return fmt.Errorf("get: %w", err)
			}
		}
	}
	return nil
}

// widget compares spec as it is printed.
func widget(item *unstructured.Unstructured, version string, want map[string]string) error {
	if item.GetAPIVersion() != "millrace.example/"+version || item.GetKind() != "Widget" {
		return fmt.Errorf("%s is a %s of %s, want %s", item.GetName(), item.GetKind(), item.GetAPIVersion(), version)
	}
	if spec := fmt.Sprint(item.Object["spec"]); spec != want[item.GetName()] {
		return fmt.Errorf("%s has spec %s, want %s", item.GetName(), spec, want[item.GetName()])
	}
	return nil
}

// TestCustomResources follows a definition through its life.
func TestCustomResources(t *testing.T) {
	s := harness.Start(t, harness.ShortTempDir(t))
	c := newCustom(t, s)
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"color": text})
	watchers := map[string]watch.Interface{}
	for _, version := range []string{"v1", "v1beta1"} {
		watcher, err := c.widgets(version).Watch(t.Context(), metav1.ListOptions{})
		check(t, err)
		defer watcher.Stop()
		watchers[version] = watcher
	}
	// size is not in the schema: it is pruned.
	c.create(t, "a", map[string]any{"color": "red", "size": "big"})
	c.create(t, "b", map[string]any{})
	want := map[string]string{"a": "map[color:red]", "b": "map[]"}
	check(t, c.serves(t.Context(), want))
	for version, watcher := range watchers {
		for range want {
			event := nextEvent(t, watcher)
			object(t, event)
			check(t, widget(event.Object.(*unstructured.Unstructured), version, want))
		}
	}

	check(t, s.Terminate())
	s = s.Restart()
	c = newCustom(t, s)
	eventually(t, func(ctx context.Context) error { return c.serves(ctx, want) })

	t.Log("a default that the schema gains is seen in objects from before")
	blue := text
	blue.Default = &apiextensionsv1.JSON{Raw: []byte(`"blue"`)}
	c.redefine(t, map[string]apiextensionsv1.JSONSchemaProps{"color": blue})
	defaulted := map[string]string{"a": "map[color:red]", "b": "map[color:blue]"}
	eventually(t, func(ctx context.Context) error { return c.serves(ctx, defaulted) })

	t.Log("a definition made anew has none of the objects and another schema")
	check(t, c.definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "widgets.millrace.example", metav1.DeleteOptions{}))
	eventually(t, func(ctx context.Context) error {
		_, err := c.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "widgets.millrace.example", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("definition is still there"), err)
	})
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"size": text})
	check(t, c.serves(t.Context(), nil))
	c.create(t, "a", map[string]any{"color": "red", "size": "big"})
	eventually(t, func(ctx context.Context) error { return c.serves(ctx, map[string]string{"a": "map[size:big]"}) })
}

// redefine changes the schema.
func (c custom) redefine(t *testing.T, properties map[string]apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		definitions := c.definitions.ApiextensionsV1().CustomResourceDefinitions()
		current, err := definitions.Get(ctx, "widgets.millrace.example", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Spec = widgets(properties).Spec
		_, err = definitions.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// TestSchemasThatAreDropped: with no room for what is compiled, it is made again
// whenever it is needed, and watches go on.
func TestSchemasThatAreDropped(t *testing.T) {
	s := harness.Start(t, harness.ShortTempDir(t), "--compiled-schemas-bytes=1")
	c := newCustom(t, s)
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"color": text})
	first := c.create(t, "first", map[string]any{"color": "red", "size": "big"})
	watcher, err := c.widgets("v1beta1").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.GetResourceVersion()})
	check(t, err)
	defer watcher.Stop()
	other := widgets(map[string]apiextensionsv1.JSONSchemaProps{"size": text})
	other.Name, other.Spec.Names = "wheels.millrace.example", apiextensionsv1.CustomResourceDefinitionNames{Plural: "wheels", Kind: "Wheel"}
	_, err = c.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), other, metav1.CreateOptions{})
	check(t, err)
	wheels := c.objects.Resource(schema.GroupVersionResource{Group: "millrace.example", Version: "v1", Resource: "wheels"}).Namespace("default")
	eventually(t, func(ctx context.Context) error {
		_, err := wheels.List(ctx, metav1.ListOptions{})
		return err
	})
	want := map[string]string{"first": "map[color:red]"}
	for i := range 5 {
		name := fmt.Sprint("w", i)
		_, err := wheels.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "millrace.example/v1", "kind": "Wheel", "metadata": map[string]any{"name": name}, "spec": map[string]any{"color": "red", "size": "big"},
		}}, metav1.CreateOptions{})
		check(t, err)
		made, err := wheels.Get(t.Context(), name, metav1.GetOptions{})
		check(t, err)
		if got := fmt.Sprint(made.Object["spec"]); got != "map[size:big]" {
			t.Errorf("%s has spec %s", name, got)
		}
		c.create(t, name, map[string]any{"color": "blue", "size": "big"})
		want[name] = "map[color:blue]"
		event := nextEvent(t, watcher)
		object(t, event)
		check(t, widget(event.Object.(*unstructured.Unstructured), "v1beta1", want))
	}
	check(t, c.serves(t.Context(), want))
}

// TestHistoryOutlivesSchemas: a new schema ends watches, which resume behind it
// although no object was there meanwhile.
func TestHistoryOutlivesSchemas(t *testing.T) {
	s := harness.Start(t, harness.ShortTempDir(t))
	c := newCustom(t, s)
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"color": text})
	before, err := c.widgets("v1").List(t.Context(), metav1.ListOptions{})
	check(t, err)
	from := metav1.ListOptions{ResourceVersion: before.GetResourceVersion()}
	old, err := c.widgets("v1").Watch(t.Context(), from)
	check(t, err)
	defer old.Stop()
	c.create(t, "a", map[string]any{"color": "red"})
	check(t, c.widgets("v1").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	blue := text
	blue.Default = &apiextensionsv1.JSON{Raw: []byte(`"blue"`)}
	c.redefine(t, map[string]apiextensionsv1.JSONSchemaProps{"color": text, "shade": blue})
	for event := range old.ResultChan() {
		object(t, event)
	}
	watcher, err := c.widgets("v1").Watch(t.Context(), from)
	check(t, err)
	defer watcher.Stop()
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		event := nextEvent(t, watcher)
		if object(t, event); event.Type != want {
			t.Fatalf("event is %s, want %s", event.Type, want)
		}
		check(t, widget(event.Object.(*unstructured.Unstructured), "v1", map[string]string{"a": "map[color:red shade:blue]"}))
	}
}
