package informers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// cluster is a server and its own etcd. Both can be restarted.
type cluster struct {
	t      *testing.T
	etcd   *harness.Etcd
	server *harness.Server
}

// fault disturbs a cluster while objects are written.
type fault struct {
	name string
	do   func(cl *cluster)
}

var (
	terminated = fault{"server terminated", func(cl *cluster) {
		if err := cl.server.Terminate(); err != nil {
			cl.t.Errorf("server ended with %v", err)
		}
		cl.server = cl.server.Restart()
	}}
	killed = fault{"server killed", func(cl *cluster) {
		cl.server.Kill()
		cl.server = cl.server.Restart()
	}}
	etcdTerminated = fault{"etcd terminated", func(cl *cluster) {
		if err := cl.etcd.Terminate(); err != nil {
			cl.t.Errorf("etcd ended with %v", err)
		}
		cl.etcd = cl.etcd.Restart()
		began := time.Now()
		defer func() {
			cl.t.Logf("the server was ready %v after etcd was started", time.Since(began).Round(time.Millisecond))
		}()
		cl.eventually(func(context.Context) error { return cl.server.Ready() })
	}}
)

// newCluster starts etcd and a server and creates the objects that must exist
// before the first watch. args are flags of the server.
func newCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	quiet()
	etcd := harness.StartEtcd(t)
	args = append([]string{"--etcd-servers=" + etcd.Endpoint}, args...)
	cl := &cluster{t, etcd, harness.Start(t, harness.ShortTempDir(t), args...)}
	cl.makeNamespaces()
	cl.defineWidgets()
	return cl
}

// config returns a client configuration that has its own connection.
func (cl *cluster) config() *rest.Config {
	cl.t.Helper()
	config := cl.server.Config()
	config.Dial = (&net.Dialer{}).DialContext
	return config
}

// countingConfig returns a configuration whose clients count their requests: in
// the calls of the request's context, or else in fixed.
func (cl *cluster) countingConfig(contentType string, fixed *calls) *rest.Config {
	cl.t.Helper()
	config := cl.config()
	config.ContentType = contentType
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{next, fixed} })
	return config
}

func (cl *cluster) dynamic() dynamic.Interface {
	cl.t.Helper()
	client, err := dynamic.NewForConfig(cl.config())
	check(cl.t, err)
	return client
}

func (cl *cluster) makeNamespaces() {
	client, err := kubernetes.NewForConfig(cl.config())
	check(cl.t, err)
	for n := range namespaces {
		meta := metav1.ObjectMeta{Name: namespace(n)}
		_, err := client.CoreV1().Namespaces().Create(cl.t.Context(), &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
		check(cl.t, err)
		// Pods are only admitted once their service account exists.
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		_, err = client.CoreV1().ServiceAccounts(meta.Name).Create(cl.t.Context(), account, metav1.CreateOptions{})
		check(cl.t, err)
	}
}

// defineWidgets creates the custom resource definition and waits until the
// server accepts writes of widgets.
func (cl *cluster) defineWidgets() {
	client, err := apiextensions.NewForConfig(cl.config())
	check(cl.t, err)
	keep := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.millrace.example"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgets.resource.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &keep,
				}},
			}},
		},
	}
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Create(cl.t.Context(), definition, metav1.CreateOptions{})
	check(cl.t, err)
	objects := cl.dynamic().Resource(widgets.resource).Namespace(namespace(0))
	probe := widgets.make(slot{widgets, namespace(0), "probe"}, newRand(0))
	cl.eventually(func(ctx context.Context) error {
		_, err := objects.Create(ctx, probe, metav1.CreateOptions{})
		return err
	})
}

// eventually polls until condition returns nil.
func (cl *cluster) eventually(condition func(ctx context.Context) error) {
	cl.t.Helper()
	last := errors.New("never tried")
	err := wait.PollUntilContextTimeout(cl.t.Context(), 100*time.Millisecond, patience(), true, func(ctx context.Context) (bool, error) {
		err := condition(ctx)
		if ctx.Err() == nil {
			last = err // An error after the deadline would only say that time is up.
		}
		return err == nil, nil
	})
	if err != nil {
		cl.t.Fatalf("not so within %v: %v", patience(), last)
	}
}

// usage is a reading of the resources that a process has used.
type usage struct {
	at       time.Time
	cpu      time.Duration
	resident int // in KiB
	peak     int // in KiB
}

// usageOf reads /proc. Figures that it cannot read are zero, since they are
// only for the log.
func usageOf(pid int) usage {
	const ticksPerSecond = 100 // USER_HZ, which Linux shows to programs
	u := usage{at: time.Now()}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, stat, _ = bytes.Cut(stat, []byte(") "))
	if f := strings.Fields(string(stat)); len(f) > 12 {
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		u.cpu = time.Duration(user+system) * time.Second / ticksPerSecond
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &u.resident)
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &u.peak)
	}
	return u
}

// since describes the usage between two readings of the same process.
func (u usage) since(before usage) string {
	share := 100 * (u.cpu - before.cpu).Seconds() / u.at.Sub(before.at).Seconds()
	return fmt.Sprintf("%.0f%% of a core, %d MiB resident, %d MiB at most", share, u.resident>>10, u.peak>>10)
}

// startSecond starts a second server over the same etcd.
func (cl *cluster) startSecond() *cluster {
	cl.t.Helper()
	return &cluster{cl.t, cl.etcd, harness.Start(cl.t, harness.ShortTempDir(cl.t), "--etcd-servers="+cl.etcd.Endpoint)}
}
