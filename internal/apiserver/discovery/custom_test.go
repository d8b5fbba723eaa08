package discovery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/discovery"
)

// TestCustomAgreesWithKubernetes changes definitions at random, and compares all documents
// with those of Kubernetes' discovery controller.
func TestCustomAgreesWithKubernetes(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &definitionChanges{Rand: rand.New(rand.NewPCG(seed, 3)), crds: map[string]*apiextensionsv1.CustomResourceDefinition{}}
			s, forwarded := newServer(t), aggregated.NewResourceManager("apis")
			s.Custom().SetManager(forwarded.WithSource(aggregated.CRDSource))
			for range 20 {
				for range 1 + r.IntN(6) {
					s.Custom().Change(r.next())
				}
				o := oracleOf(t, r.crds)
				agreeOnCustom(t, s, o)
				header := http.Header{"Accept": {accepts[0]}}
				compare(t, "forwarded", ask(forwarded, "/apis", header), ask(o.manager, "/apis", header))
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

// oracle has the documents that Kubernetes' discovery controller makes of definitions.
type oracle struct {
	manager         aggregated.ResourceManager
	groups, version http.Handler
}

// oracleOf runs the controller until it has processed all definitions once. The types of
// the handlers that it fills are not exported, so they are made by reflection.
func oracleOf(t *testing.T, crds map[string]*apiextensionsv1.CustomResourceDefinition) oracle {
	t.Helper()
	var objects []runtime.Object
	for _, c := range crds {
		objects = append(objects, c)
	}
	factory := externalversions.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions()
	made := reflect.ValueOf(apiextensionsapiserver.NewDiscoveryController)
	versions, groups := handlerOf(made.Type().In(1)), handlerOf(made.Type().In(2))
	o := oracle{manager: aggregated.NewResourceManager("apis"), groups: groups.Interface().(http.Handler), version: versions.Interface().(http.Handler)}
	controller := made.Call([]reflect.Value{
		reflect.ValueOf(informer), versions, groups, reflect.ValueOf(o.manager.WithSource(aggregated.CRDSource)),
	})[0].Interface().(*apiextensionsapiserver.DiscoveryController)
	ctx, cancel := context.WithCancel(t.Context())
	synced, ended := make(chan struct{}), make(chan struct{})
	factory.Start(ctx.Done())
	go func() {
		defer close(ended)
		controller.Run(ctx.Done(), synced)
	}()
	<-synced
	cancel()
	<-ended
	factory.Shutdown()
	return o
}

// handlerOf makes a handler of a type of that package, with an empty map and a delegate that
// answers 404.
func handlerOf(pointer reflect.Type) reflect.Value {
	v := reflect.New(pointer.Elem())
	for i := range v.Elem().NumField() {
		field := v.Elem().Field(i)
		field = reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
		switch field.Kind() {
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
		case reflect.Interface:
			field.Set(reflect.ValueOf(http.NotFoundHandler()))
		}
	}
	return v
}

func agreeOnCustom(t *testing.T, s *discovery.Server, o oracle) {
	t.Helper()
	h := s.Wrap(http.NotFoundHandler())
	for _, accept := range accepts[:3] {
		header := http.Header{"Accept": {accept}}
		compare(t, accept, ask(s.Manager(), "/apis", header), ask(o.manager, "/apis", header))
	}
	for group := range groupCount {
		for _, accept := range []string{"application/json", protobuf, "application/yaml", "", "application/json" + asDiscovery, "text/html"} {
			header := http.Header{"Accept": {accept}}
			path := fmt.Sprintf("/apis/%s", groupName(group))
			compare(t, path+" "+accept, ask(h, path, header), ask(o.groups, path, header))
			compare(t, path+"/ "+accept, ask(h, path+"/", header), ask(o.groups, path+"/", header))
		}
		for _, version := range versions {
			path := fmt.Sprintf("/apis/%s/%s", groupName(group), version)
			ours, theirs := ask(h, path, http.Header{}), ask(o.version, path, http.Header{})
			if theirs.Code == http.StatusOK {
				// Kubernetes lists resources in the order of a map.
				ours.Body, theirs.Body = inOrder(t, ours.Body), inOrder(t, theirs.Body)
			}
			compare(t, path, ours, theirs)
		}
	}
}

// inOrder sorts the resources of a document, each followed by its subresources.
func inOrder(t *testing.T, body *bytes.Buffer) *bytes.Buffer {
	t.Helper()
	var list metav1.APIResourceList
	if err := json.Unmarshal(body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(list.APIResources, func(a, b metav1.APIResource) int {
		first, _, _ := strings.Cut(a.Name, "/")
		second, _, _ := strings.Cut(b.Name, "/")
		return strings.Compare(first, second)
	})
	sorted, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewBuffer(sorted)
}

const groupCount = 4

// groupName returns the name of a group. Kubernetes encodes the document of the group
// "extensions" in an old way.
func groupName(n int) string {
	return []string{"a.example.com", "b.example.com", "extensions", "d.example.com"}[n]
}

// definitionChanges makes random changes of definitions.
type definitionChanges struct {
	*rand.Rand
	crds map[string]*apiextensionsv1.CustomResourceDefinition
}

func (r *definitionChanges) next() (before, after *crd.Definition) {
	made := r.definition()
	if last := r.crds[made.Name]; last != nil {
		before = row(last)
	}
	if before != nil && r.IntN(4) == 0 {
		delete(r.crds, made.Name)
		return before, nil
	}
	r.crds[made.Name] = made
	return before, row(made)
}

func (r *definitionChanges) definition() *apiextensionsv1.CustomResourceDefinition {
	group, plural := groupName(r.IntN(groupCount)), fmt.Sprintf("things%d", r.IntN(4))
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: plural, Singular: plural[:6], Kind: strings.ToUpper(plural[:1]) + plural[1:], ListKind: "List",
	}
	if r.IntN(2) == 0 {
		names.ShortNames, names.Categories = []string{"th", "t"}, []string{"all", "example"}
	}
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group}}
	c.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: group, Names: names, Scope: apiextensionsv1.ClusterScoped}
	if r.IntN(2) == 0 {
		c.Spec.Scope = apiextensionsv1.NamespaceScoped
	}
	stored := r.IntN(2)
	for i, n := range r.Perm(len(versions))[:1+r.IntN(3)] {
		v := apiextensionsv1.CustomResourceDefinitionVersion{Name: versions[n], Served: r.IntN(4) > 0, Storage: i == stored}
		if r.IntN(3) > 0 {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{}
			if r.IntN(2) == 0 {
				v.Subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
			}
			if r.IntN(2) == 0 {
				v.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{}
			}
		}
		c.Spec.Versions = append(c.Spec.Versions, v)
	}
	c.Status.AcceptedNames = names
	if r.IntN(4) == 0 {
		c.Spec.Names.Kind, c.Spec.Names.ShortNames = "Wanted", []string{"wanted"}
	}
	for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.Established, apiextensionsv1.Terminating} {
		status := apiextensionsv1.ConditionTrue
		if (r.IntN(5) == 0) == (condition == apiextensionsv1.Established) {
			status = apiextensionsv1.ConditionFalse
		}
		c.Status.Conditions = append(c.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{Type: condition, Status: status})
	}
	return c
}

// row returns the row of a definition in the catalog.
func row(c *apiextensionsv1.CustomResourceDefinition) *crd.Definition {
	d := &crd.Definition{Name: c.Name, Group: c.Spec.Group, Scope: c.Spec.Scope, Wanted: c.Spec.Names, Accepted: c.Status.AcceptedNames}
	for _, condition := range c.Status.Conditions {
		is := condition.Status == apiextensionsv1.ConditionTrue
		switch condition.Type {
		case apiextensionsv1.Established:
			d.Established = is
		case apiextensionsv1.Terminating:
			d.Terminating = is
		}
	}
	for _, v := range c.Spec.Versions {
		made := crd.Version{Name: v.Name, Served: v.Served, Storage: v.Storage}
		if v.Subresources != nil {
			made.Status, made.Scale = v.Subresources.Status != nil, v.Subresources.Scale != nil
		}
		d.Versions = append(d.Versions, made)
	}
	return d
}
