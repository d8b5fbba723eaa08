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

	"github.com/millrace/millrace/test/support/harness"
)

// widgetDefinition returns the definition of a resource with two versions. properties are
// those of spec.
func widgetDefinition(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
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

// stringSchema is the schema of a property.
var stringSchema = apiextensionsv1.JSONSchemaProps{Type: "string"}

// customClients are a test's clients of definitions and of custom objects.
type customClients struct {
	definitions *apiextensions.Clientset
	objects     dynamic.Interface
}

func newCustomClients(t *testing.T, s *harness.Server) customClients {
	t.Helper()
	definitions, err := apiextensions.NewForConfig(s.Config())
	check(t, err)
	objects, err := dynamic.NewForConfig(s.Config())
	check(t, err)
	return customClients{definitions, objects}
}

func (c customClients) widgets(version string) dynamic.ResourceInterface {
	return c.objects.Resource(schema.GroupVersionResource{Group: "millrace.example", Version: version, Resource: "widgets"}).Namespace("default")
}

// define creates the definition and waits until both versions are served.
func (c customClients) define(t *testing.T, properties map[string]apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	_, err := c.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), widgetDefinition(properties), metav1.CreateOptions{})
	check(t, err)
	for _, version := range []string{"v1", "v1beta1"} {
		eventually(t, func(ctx context.Context) error {
			_, err := c.widgets(version).List(ctx, metav1.ListOptions{})
			return err
		})
	}
}

// create creates a widget, and waits until the server accepts it.
func (c customClients) create(t *testing.T, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	var created *unstructured.Unstructured
	// The server takes a moment to accept objects of a new definition.
	eventually(t, func(ctx context.Context) (err error) {
		created, err = c.widgets("v1").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "millrace.example/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": spec,
		}}, metav1.CreateOptions{})
		return err
	})
	return created
}

// checkWidgets returns an error unless both versions have exactly some widgets, in lists
// and one by one. want are their specs, printed, by name.
func (c customClients) checkWidgets(ctx context.Context, want map[string]string) error {
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
				if err := checkWidget(&item, version, want); err != nil {
					return fmt.Errorf("list: %w", err)
				}
			}
		}
		for name := range want {
			got, err := c.widgets(version).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := checkWidget(got, version, want); err != nil {
				return fmt.Errorf("get: %w", err)
			}
		}
	}
	return nil
}

// checkWidget returns an error unless a widget has a version and the spec in want.
func checkWidget(item *unstructured.Unstructured, version string, want map[string]string) error {
	if item.GetAPIVersion() != "millrace.example/"+version || item.GetKind() != "Widget" {
		return fmt.Errorf("%s is a %s of %s, want %s", item.GetName(), item.GetKind(), item.GetAPIVersion(), version)
	}
	if spec := fmt.Sprint(item.Object["spec"]); spec != want[item.GetName()] {
		return fmt.Errorf("%s has spec %s, want %s", item.GetName(), spec, want[item.GetName()])
	}
	return nil
}

// TestCustomResources creates, changes, deletes and recreates a definition, over a
// restart, and checks its objects each time.
func TestCustomResources(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	c := newCustomClients(t, s)
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"color": stringSchema})
	watchers := map[string]watch.Interface{}
	for _, version := range []string{"v1", "v1beta1"} {
		watcher, err := c.widgets(version).Watch(t.Context(), metav1.ListOptions{})
		check(t, err)
		defer watcher.Stop()
		watchers[version] = watcher
	}
	// The size is not in the schema, so it is pruned.
	c.create(t, "a", map[string]any{"color": "red", "size": "big"})
	c.create(t, "b", map[string]any{})
	want := map[string]string{"a": "map[color:red]", "b": "map[]"}
	check(t, c.checkWidgets(t.Context(), want))
	for version, watcher := range watchers {
		for range want {
			event := nextEvent(t, watcher)
			wantObject(t, event)
			check(t, checkWidget(event.Object.(*unstructured.Unstructured), version, want))
		}
	}

	check(t, s.Terminate())
	s = s.Restart()
	c = newCustomClients(t, s)
	eventually(t, func(ctx context.Context) error { return c.checkWidgets(ctx, want) })

	t.Log("a new default of the schema appears in existing objects")
	blue := stringSchema
	blue.Default = &apiextensionsv1.JSON{Raw: []byte(`"blue"`)}
	c.redefine(t, map[string]apiextensionsv1.JSONSchemaProps{"color": blue})
	defaulted := map[string]string{"a": "map[color:red]", "b": "map[color:blue]"}
	eventually(t, func(ctx context.Context) error { return c.checkWidgets(ctx, defaulted) })

	t.Log("a recreated definition has none of the objects, and its new schema")
	check(t, c.definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "widgets.millrace.example", metav1.DeleteOptions{}))
	eventually(t, func(ctx context.Context) error {
		_, err := c.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "widgets.millrace.example", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("definition is still there"), err)
	})
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"size": stringSchema})
	check(t, c.checkWidgets(t.Context(), nil))
	c.create(t, "a", map[string]any{"color": "red", "size": "big"})
	eventually(t, func(ctx context.Context) error { return c.checkWidgets(ctx, map[string]string{"a": "map[size:big]"}) })
}

// redefine changes the definition's schema.
func (c customClients) redefine(t *testing.T, properties map[string]apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		definitions := c.definitions.ApiextensionsV1().CustomResourceDefinitions()
		current, err := definitions.Get(ctx, "widgets.millrace.example", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Spec = widgetDefinition(properties).Spec
		_, err = definitions.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// TestSchemasAreCompiledAgain has a server with hardly any memory for compiled schemas.
// It compiles a schema again whenever it is needed, and watches go on.
func TestSchemasAreCompiledAgain(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t), "--compiled-schemas-bytes=1")
	c := newCustomClients(t, s)
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"color": stringSchema})
	first := c.create(t, "first", map[string]any{"color": "red", "size": "big"})
	watcher, err := c.widgets("v1beta1").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.GetResourceVersion()})
	check(t, err)
	defer watcher.Stop()
	other := widgetDefinition(map[string]apiextensionsv1.JSONSchemaProps{"size": stringSchema})
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
		wheel, err := wheels.Get(t.Context(), name, metav1.GetOptions{})
		check(t, err)
		if got := fmt.Sprint(wheel.Object["spec"]); got != "map[size:big]" {
			t.Errorf("wheel %s has spec %s, want only the size", name, got)
		}
		c.create(t, name, map[string]any{"color": "blue", "size": "big"})
		want[name] = "map[color:blue]"
		event := nextEvent(t, watcher)
		wantObject(t, event)
		check(t, checkWidget(event.Object.(*unstructured.Unstructured), "v1beta1", want))
	}
	check(t, c.checkWidgets(t.Context(), want))
}

// TestHistoryOutlivesSchemas checks that a new schema ends watches, and that a watch from
// before the change gets all events, although no object is left.
func TestHistoryOutlivesSchemas(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	c := newCustomClients(t, s)
	c.define(t, map[string]apiextensionsv1.JSONSchemaProps{"color": stringSchema})
	before, err := c.widgets("v1").List(t.Context(), metav1.ListOptions{})
	check(t, err)
	from := metav1.ListOptions{ResourceVersion: before.GetResourceVersion()}
	old, err := c.widgets("v1").Watch(t.Context(), from)
	check(t, err)
	defer old.Stop()
	c.create(t, "a", map[string]any{"color": "red"})
	check(t, c.widgets("v1").Delete(t.Context(), "a", metav1.DeleteOptions{}))
	blue := stringSchema
	blue.Default = &apiextensionsv1.JSON{Raw: []byte(`"blue"`)}
	c.redefine(t, map[string]apiextensionsv1.JSONSchemaProps{"color": stringSchema, "shade": blue})
	for event := range old.ResultChan() {
		wantObject(t, event)
	}
	watcher, err := c.widgets("v1").Watch(t.Context(), from)
	check(t, err)
	defer watcher.Stop()
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		event := nextEvent(t, watcher)
		if wantObject(t, event); event.Type != want {
			t.Fatalf("event is %s, want %s", event.Type, want)
		}
		check(t, checkWidget(event.Object.(*unstructured.Unstructured), "v1", map[string]string{"a": "map[color:red shade:blue]"}))
	}
}
