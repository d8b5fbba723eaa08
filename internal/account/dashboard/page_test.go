package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/account/dashboard/fake"
	"github.com/millrace/millrace/test/support/chromium"
)

const goodToken, weakToken = "good-token", "weak-token"

// site is a server with the page, and with reports that need a token.
type site struct {
	*httptest.Server
	fake *fake.Cluster
	gone atomic.Bool
	asks atomic.Int64
}

func newSite(t *testing.T) *site {
	t.Helper()
	cluster := fake.New()
	return newSiteOf(t, cluster, cluster.Source())
}

func newSiteOf(t *testing.T, cluster *fake.Cluster, source dashboard.Source) *site {
	t.Helper()
	s := &site{fake: cluster}
	reports := dashboard.Handler(source)
	front, err := dashboard.Shell()
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewTLSServer(front(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.asks.Add(1)
		switch req.Header.Get("Authorization") {
		case "Bearer " + goodToken:
		case "Bearer " + weakToken:
			http.Error(w, `{"kind":"Status","message":"forbidden: User \"<b>bob</b>\" cannot get path \"/debug/millrace/\""}`, http.StatusForbidden)
			return
		case "":
			http.Error(w, `{"kind":"Status","message":"forbidden: User \"system:anonymous\" cannot get path \"/debug/millrace/\""}`, http.StatusForbidden)
			return
		default:
			http.Error(w, `{"kind":"Status","message":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		if s.gone.Load() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		reports.ServeHTTP(w, req)
	})))
	t.Cleanup(s.Close)
	return s
}

// signIn enters a token into the form and submits it.
func signIn(b *chromium.Browser, token string) {
	b.WaitUntil("!document.querySelector('#sign-in').hidden && !document.querySelector('#gate').hidden")
	b.Eval(fmt.Sprintf("(() => { const i = document.querySelector('#token'); i.value = %q; i.form.requestSubmit() })()", token))
}

func TestPage(t *testing.T) {
	s := newSite(t)
	b := chromium.Open(t)
	b.SetAppearance(1400, "light")
	b.Go(s.URL + dashboard.ShellPrefix)
	b.WaitUntil("document.body.dataset.state === 'signed-out'")
	b.Screenshot("signed-out")

	signIn(b, "wrong")
	b.WaitUntil("document.querySelector('#gate-text').textContent.includes('not accepted')")
	signIn(b, weakToken)
	b.WaitUntil("document.body.dataset.state === 'denied'")
	b.WaitUntil("document.querySelector('#gate-code').textContent.includes('/debug/millrace/*')")
	b.WaitUntil(`document.querySelector('#gate-text').textContent.includes('<b>bob</b>')`)
	b.Screenshot("denied")
	signIn(b, goodToken)
	b.WaitUntil("document.body.dataset.state === 'live'")

	for panel, words := range map[string][]string{
		"now":      {"2 causes", "Clients do not read", "Give the client more CPU", "20,412"},
		"slo":      {"endpointslices.discovery.k8s.io", "missed", "met", "slow-exporter", "spec.nodeName=node-00417", "100 ms"},
		"watchers": {"client does not read", "system:node:node-", "Furthest behind", "41 s", "csi-snapshotter"},
		"lists":    {"LIST pods", "select by a label that few objects have", "cilium-agent", "3,104 of 5,000 clients", "pacing is on", "63,291 compared", "at .metadata.annotations, revision 4711"},
		"memory":   {"v1 protobuf 141 MB", "field spec.nodeName", "of 4.3 GB"},
		"crds":     {"compositions.apiextensions.crossplane.io", "webhook", "2,014"},
		"replica":  {"v1.37.1", "https://api.example.com:6443", "broken for 12 s", "not-read", "impersonation", "certificate", "3 at the source", "CPU spared", "1 d 16 h"},
		"feed":     {"https://10.0.0.2:2379", "late 7.2 s", "works", "of 2 processors"},
	} {
		for _, word := range words {
			b.WaitUntil(fmt.Sprintf("document.querySelector('#%s').innerText.includes(%q)", panel, word))
		}
	}
	t.Run("figures are live", func(t *testing.T) {
		revision := "document.querySelector('#feed tbody tr').cells[2].textContent"
		before := b.Eval(revision)
		b.WaitUntil(fmt.Sprintf("%s !== %q", revision, before))
		b.WaitUntil("document.querySelectorAll('#slo .spark .line').length > 7")
	})
	t.Run("hostile names are text", func(t *testing.T) {
		for _, name := range []string{fake.HostileScript, fake.HostileImage, "<b>a</b>", "<i>x</i>"} {
			b.WaitUntil(fmt.Sprintf("document.body.innerText.includes(%q)", name))
		}
		if found := b.Eval("document.querySelectorAll('main script, main img, main b:not(.legend b), main i:not(.legend i)').length"); found != "0" {
			t.Errorf("%s elements came out of names", found)
		}
		if title := b.Eval("document.title"); strings.Contains(title, "owned") {
			t.Error("a name ran as script")
		}
	})
	t.Run("tables are sorted by buttons", func(t *testing.T) {
		first := "document.querySelector('#slo tbody tr').cells[0].textContent"
		b.Eval("document.querySelector('#slo thead button').click()")
		b.WaitUntil(first + " === 'configmaps' && document.querySelector('#slo th').ariaSort === 'ascending'")
		b.Eval("document.querySelector('#slo thead button').click()")
		b.WaitUntil(first + " === 'widgets.example.com'")
		b.Eval("document.querySelector('#slo thead button').click()")
		b.WaitUntil(first + " === 'pods' && !document.querySelector('#slo th').ariaSort")
	})
	t.Run("fits", func(t *testing.T) { looks(t, b) })
	t.Run("the token is nowhere", func(t *testing.T) {
		b.WaitUntil(fmt.Sprintf("![location.href, JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie, document.documentElement.outerHTML].join().includes(%q)", goodToken))
	})
	if said := b.Problems(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "\n"))
	}
}

// looks takes screenshots in several widths and themes.
func looks(t *testing.T, b *chromium.Browser) {
	ground := map[string]string{}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int{1400, 768, 360} {
			b.SetAppearance(width, theme)
			b.WaitUntil(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", width, theme))
			if wide := b.Eval("document.documentElement.scrollWidth > innerWidth"); wide == "true" {
				t.Errorf("at %d px the page scrolls sideways", width)
			}
			b.Screenshot(fmt.Sprintf("%s-%d", theme, width))
		}
		ground[theme] = b.Eval("getComputedStyle(document.documentElement).backgroundColor")
	}
	if ground["light"] == ground["dark"] {
		t.Errorf("both themes have the ground %s", ground["light"])
	}
	b.Eval("document.querySelector('#theme').click()")
	b.WaitUntil(fmt.Sprintf("getComputedStyle(document.documentElement).backgroundColor === %q", ground["light"]))
	b.SetAppearance(1400, "light")
}

func TestPageStates(t *testing.T) {
	s := newSite(t)
	s.fake.Well = true
	b := chromium.Open(t)
	b.SetAppearance(1400, "dark")
	b.Go(s.URL + dashboard.ShellPrefix)
	signIn(b, goodToken)
	b.WaitUntil("document.querySelector('#now')?.innerText.includes('every objective is met')")
	b.WaitUntil("document.querySelector('#watchers').innerText.includes('No watch is behind')")
	b.Screenshot("well")

	s.gone.Store(true)
	b.WaitUntil("document.body.dataset.state === 'gone' && document.querySelector('#live').innerText.includes('shutting down')")
	b.WaitUntil("document.querySelector('#now').innerText.includes('every objective is met')") // the last reports stay on the page
	b.Screenshot("gone")
	s.gone.Store(false)
	b.WaitUntil("document.body.dataset.state === 'live'")

	b.Eval("document.querySelector('#pause').click()")
	b.WaitUntil("document.querySelector('#age').textContent === 'paused'")
	asks := s.asks.Load()
	b.Eval("new Promise((done) => setTimeout(done, 2500))") // longer than the period of any report
	if now := s.asks.Load(); now > asks+1 {
		t.Errorf("%d requests while paused", now-asks)
	}
	b.Eval("document.querySelector('#pause').click()")
	b.WaitUntil("document.querySelector('#age').textContent !== 'paused'")

	b.Eval("document.querySelector('#sign-out').click()")
	b.WaitUntil("document.body.dataset.state === 'signed-out' && document.querySelector('#panels').textContent === ''")
	if said := b.Problems(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "\n"))
	}
}

// TestPageOfPart shows a server that has the memory report alone.
func TestPageOfPart(t *testing.T) {
	cluster := fake.New()
	s := newSiteOf(t, cluster, dashboard.Source{Memory: cluster.Source().Memory})
	b := chromium.Open(t)
	b.Go(s.URL + dashboard.ShellPrefix)
	signIn(b, goodToken)
	b.WaitUntil("document.querySelector('#memory')?.innerText.includes('v1 protobuf 141 MB') && document.querySelectorAll('.panel').length === 1")
	b.WaitUntil("document.querySelector('#live').innerText.includes('without an SLO')")
	if said := b.Problems(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "\n"))
	}
}
