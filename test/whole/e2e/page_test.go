package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/chromium"
	"github.com/millrace/millrace/test/support/harness"
)

// TestPageOfServer opens the page of a filled server in a browser, as an account with
// the permission. Each panel has its content, and a client that does not read appears. It
// has no test beside it, because the page tells of events that come late.
func TestPageOfServer(t *testing.T) {
	b := chromium.Open(t)
	s := harness.Start(t, harness.ShortTempDir(t), "--watch-slo=1s,configmaps=200ms", "--watch-probe=1s")
	output, code := harness.Run(t, "fill", "--kubeconfig="+s.Kubeconfig(), "--nodes=50", "--pods=400", "--namespaces=4", "--crds=20", "--groups=5", "--objects=60")
	if code != 0 {
		t.Fatalf("fill: %s", output)
	}
	client := clientset(t, s)
	token := account(t, client, "viewer")
	grant(t, client, "viewer")
	keepReading(t, s, "kubelet/v1.36.3", "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3Dnode-00001")
	keepReading(t, s, "ingress-nginx/v1", "/api/v1/configmaps?watch=true")
	stalled := open(t, s, "stuck-exporter/v2", "/api/v1/configmaps?watch=true")
	for range 40 {
		_, _ = io.Copy(io.Discard, open(t, s, "inventory/1.0", "/api/v1/pods?labelSelector=app&resourceVersion=0").Body)
	}

	b.SetAppearance(1400, "light")
	b.Go(s.URL + "/millrace/")
	b.WaitUntil("!document.querySelector('#sign-in').hidden && !document.querySelector('#gate').hidden")
	b.Eval(fmt.Sprintf("(() => { const i = document.querySelector('#token'); i.value = %q; i.form.requestSubmit() })()", token))
	b.WaitUntil("document.body.dataset.state === 'live'")
	b.Eval("document.querySelectorAll('.more').forEach((b) => b.click())") // the first rows are the slowest resources, which vary
	for panel, words := range map[string][]string{
		"slo":      {"leases.coordination.k8s.io", "met"},
		"watchers": {"By resource", "clusterroles.rbac.authorization.k8s.io"},
		"lists":    {"LIST pods", "inventory"},
		"memory":   {"pods", "nodes", "Wire cache"},
		"crds":     {"fill.millrace.dev"},
		"feed":     {"in time", "works"},
	} {
		for _, word := range words {
			b.WaitUntil(fmt.Sprintf("document.querySelector('#%s').innerText.includes(%q)", panel, word))
		}
	}
	writeLargeEvents(t, client)
	for _, sees := range []string{"#watchers", "#now"} {
		b.WaitUntil(fmt.Sprintf("document.querySelector('%s').innerText.includes('stuck-exporter')", sees))
	}
	b.WaitUntil("document.querySelector('#watchers').innerText.includes('client does not read')")
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int{1400, 360} {
			b.SetAppearance(width, theme)
			b.WaitUntil(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", width, theme))
			if b.Eval("document.documentElement.scrollWidth > innerWidth") == "true" {
				t.Errorf("at %d px the page scrolls sideways", width)
			}
			b.Screenshot(fmt.Sprintf("server-%s-%d", theme, width))
		}
	}
	if said := b.Problems(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "\n"))
	}
	check(t, stalled.Body.Close())
}

// open sends a GET and returns the response, whose body is not read.
func open(t *testing.T, s *harness.Server, userAgent, path string) *http.Response {
	t.Helper()
	config := rest.CopyConfig(s.Config())
	config.UserAgent = userAgent
	client, err := rest.HTTPClientFor(config)
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	check(t, err)
	resp, err := client.Do(req)
	check(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	return resp
}

// keepReading opens a watch and reads it until the test ends.
func keepReading(t *testing.T, s *harness.Server, userAgent, path string) {
	t.Helper()
	body := open(t, s, userAgent, path).Body
	go func() { _, _ = io.Copy(io.Discard, body) }()
}

// writeLargeEvents creates more bytes of config maps than the buffers on the way to a
// client hold.
func writeLargeEvents(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	random, noise := rand.NewChaCha8([32]byte{}), make([]byte, 700<<10) // gzip does not shrink it
	for i := range 16 {
		_, _ = random.Read(noise)
		cm := configMap(fmt.Sprint("large-", i))
		cm.BinaryData = map[string][]byte{"noise": noise}
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
		check(t, err)
	}
}
