// Package many tests a server with very many custom resource definitions, and many servers
// over one etcd. It uses definitions as their owners do: through kubectl, with a controller
// whose kind a webhook converts, and with applies and merges of objects of hundreds of
// kinds. Servers lose events, are behind, and are restarted in turn.
//
// `go test` runs a short form. With MILLRACE_ROBUSTNESS=1 it runs the long form
// with 2,000 definitions and 10,000 objects of 500 of them, and 2,000 informers,
// which takes minutes.
package many

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/test/support/harness"
)

// longVariable chooses the long form.
const longVariable = "MILLRACE_ROBUSTNESS"

// patience bounds every wait. It is generous, since machines may have other
// work.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	runtimelog.SetLogger(logr.Discard())
	harness.Main(m)
}

// scale is the size of the test. kinds is how many of the definitions have
// objects, beginning with the first.
type scale struct{ definitions, groups, kinds, objects int }

func size() scale {
	if os.Getenv(longVariable) != "" {
		return scale{definitions: 2000, groups: 400, kinds: 500, objects: 10_000}
	}
	return scale{definitions: 60, groups: 12, kinds: 20, objects: 200}
}

// cluster is a server with many definitions.
type cluster struct {
	*harness.Server
	scale
	made *fill.Generator
}

// TestManyDefinitions is one test with parts, since filling the server takes
// longest.
func TestManyDefinitions(t *testing.T) {
	cl := &cluster{Server: harness.Start(t, harness.ShortTempDir(t)), scale: size()}
	shape := fill.Shape{Seed: 1, CRDs: cl.definitions, Groups: cl.groups, Properties: 100}
	began := time.Now()
	filler, err := fill.New(fill.Config{Shape: shape, REST: cl.Config()})
	check(t, err)
	_, err = filler.Run(t.Context())
	check(t, err)
	t.Logf("%d definitions after %v", cl.definitions, time.Since(began).Round(time.Millisecond))
	cl.made, err = fill.NewGenerator(shape)
	check(t, err)
	cl.established(t)
	t.Logf("all established after %v", time.Since(began).Round(time.Millisecond))
	t.Run("kubectl", cl.throughKubectl)
	t.Run("controller", cl.controller)
	t.Run("objects", cl.objectsOfManyKinds)
}

// established waits until all definitions are established.
func (cl *cluster) established(t *testing.T) {
	t.Helper()
	client, err := apiextensions.NewForConfig(cl.Config())
	check(t, err)
	eventually(t, "definitions are established", func(ctx context.Context) error {
		list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		established := 0
		for i := range list.Items {
			if apihelpers.IsCRDConditionTrue(&list.Items[i], apiextensionsv1.Established) {
				established++
			}
		}
		return differ("number of established definitions", established, cl.definitions)
	})
}

// costs reads /debug/millrace/crds.
func (cl *cluster) costs(t *testing.T) (r serverreport.CRDsReport) {
	t.Helper()
	resp, err := cl.HTTPClient().Get(cl.Config().Host + "/debug/millrace/crds")
	check(t, err)
	defer resp.Body.Close()
	check(t, json.NewDecoder(resp.Body).Decode(&r))
	return r
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until condition returns nil.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	if err := harness.Until(patience, func() error { return condition(t.Context()) }); err != nil {
		t.Fatalf("%s: not so within %v: %v", what, patience, err)
	}
}

func differ[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}
