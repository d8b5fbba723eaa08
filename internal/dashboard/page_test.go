package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/dashboard"
	"github.com/millrace/millrace/internal/dashboard/fake"
)

const goodToken, weakToken = "good-token", "weak-token"

// site is a server with the page and with reports, which are behind a token.
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

// signIn types a token and sends it.
func (b *browser) signIn(token string) {
	b.t.Helper()
	b.until("!document.querySelector('#sign-in').hidden && !document.querySelector('#gate').hidden")
	b.eval(fmt.Sprintf("(() => { const i = document.querySelector('#token'); i.value = %q; i.form.requestSubmit() })()", token))
}

func TestPage(t *testing.T) {
	s := newSite(t)
	b := openBrowser(t)
	b.look(1400, "light")
	b.open(s.URL + dashboard.ShellPrefix)
	b.until("document.body.dataset.state === 'signed-out'")
	b.shoot("signed-out")

	b.signIn("wrong")
	b.until("document.querySelector('#gate-text').textContent.includes('not accepted')")
	b.signIn(weakToken)
	b.until("document.body.dataset.state === 'denied'")
	b.until("document.querySelector('#gate-code').textContent.includes('/debug/millrace/*')")
	b.until(`document.querySelector('#gate-text').textContent.includes('<b>bob</b>')`)
	b.shoot("denied")
	b.signIn(goodToken)
	b.until("document.body.dataset.state === 'live'")

	for panel, words := range map[string][]string{
		"now":      {"2 causes", "Clients do not read", "Give the client more CPU", "20,412"},
		"slo":      {"endpointslices.discovery.k8s.io", "missed", "met", "slow-exporter", "spec.nodeName=node-00417", "100 ms"},
		"watchers": {"client does not read", "system:node:node-", "Furthest behind", "41 s"},
		"lists":    {"LIST pods", "select by a label that few objects have", "cilium-agent", "3,104 of 5,000 clients", "pacing is on"},
		"memory":   {"v1 protobuf 141 MB", "field spec.nodeName", "of 4.3 GB"},
		"crds":     {"compositions.apiextensions.crossplane.io", "webhook", "2,014"},
		"feed":     {"https://10.0.0.2:2379", "late 7.2 s", "works", "of 2 processors"},
	} {
		for _, word := range words {
			b.until(fmt.Sprintf("document.querySelector('#%s').innerText.includes(%q)", panel, word))
		}
	}
	t.Run("figures are live", func(t *testing.T) {
		revision := "document.querySelector('#feed tbody tr').cells[2].textContent"
		before := b.eval(revision)
		b.until(fmt.Sprintf("%s !== %q", revision, before))
		b.until("document.querySelectorAll('#slo .spark .line').length > 7")
	})
	t.Run("hostile names are text", func(t *testing.T) {
		for _, name := range []string{fake.HostileScript, fake.HostileImage, "<b>a</b>", "<i>x</i>"} {
			b.until(fmt.Sprintf("document.body.innerText.includes(%q)", name))
		}
		if found := b.eval("document.querySelectorAll('main script, main img, main b:not(.legend b), main i:not(.legend i)').length"); found != "0" {
			t.Errorf("%s elements came out of names", found)
		}
		if title := b.eval("document.title"); strings.Contains(title, "owned") {
			t.Error("a name ran as script")
		}
	})
	t.Run("tables are sorted by buttons", func(t *testing.T) {
		first := "document.querySelector('#slo tbody tr').cells[0].textContent"
		b.eval("document.querySelector('#slo thead button').click()")
		b.until(first + " === 'configmaps' && document.querySelector('#slo th').ariaSort === 'ascending'")
		b.eval("document.querySelector('#slo thead button').click()")
		b.until(first + " === 'widgets.example.com'")
		b.eval("document.querySelector('#slo thead button').click()")
		b.until(first + " === 'pods' && !document.querySelector('#slo th').ariaSort")
	})
	t.Run("fits", func(t *testing.T) { looks(t, b) })
	t.Run("the token is nowhere", func(t *testing.T) {
		b.until(fmt.Sprintf("![location.href, JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie, document.documentElement.outerHTML].join().includes(%q)", goodToken))
	})
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "\n"))
	}
}

// looks goes through widths and themes.
func looks(t *testing.T, b *browser) {
	ground := map[string]string{}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int{1400, 768, 360} {
			b.look(width, theme)
			b.until(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", width, theme))
			if wide := b.eval("document.documentElement.scrollWidth > innerWidth"); wide == "true" {
				t.Errorf("at %d px the page scrolls sideways", width)
			}
			b.shoot(fmt.Sprintf("%s-%d", theme, width))
		}
		ground[theme] = b.eval("getComputedStyle(document.documentElement).backgroundColor")
	}
	if ground["light"] == ground["dark"] {
		t.Errorf("both themes have the ground %s", ground["light"])
	}
	b.eval("document.querySelector('#theme').click()")
	b.until(fmt.Sprintf("getComputedStyle(document.documentElement).backgroundColor === %q", ground["light"]))
	b.look(1400, "light")
}

func TestPageStates(t *testing.T) {
	s := newSite(t)
	s.fake.Well = true
	b := openBrowser(t)
	b.look(1400, "dark")
	b.open(s.URL + dashboard.ShellPrefix)
	b.signIn(goodToken)
	b.until("document.querySelector('#now')?.innerText.includes('every objective is met')")
	b.until("document.querySelector('#watchers').innerText.includes('No watch is behind')")
	b.shoot("well")

	s.gone.Store(true)
	b.until("document.body.dataset.state === 'gone' && document.querySelector('#live').innerText.includes('shutting down')")
	b.until("document.querySelector('#now').innerText.includes('every objective is met')") // what was known stays
	b.shoot("gone")
	s.gone.Store(false)
	b.until("document.body.dataset.state === 'live'")

	b.eval("document.querySelector('#pause').click()")
	b.until("document.querySelector('#age').textContent === 'paused'")
	asks := s.asks.Load()
	b.eval("new Promise((done) => setTimeout(done, 2500))") // longer than any report waits
	if now := s.asks.Load(); now > asks+1 {
		t.Errorf("%d requests while paused", now-asks)
	}
	b.eval("document.querySelector('#pause').click()")
	b.until("document.querySelector('#age').textContent !== 'paused'")

	b.eval("document.querySelector('#sign-out').click()")
	b.until("document.body.dataset.state === 'signed-out' && document.querySelector('#panels').textContent === ''")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "\n"))
	}
}

// TestPageOfPart shows a server that measures memory alone.
func TestPageOfPart(t *testing.T) {
	cluster := fake.New()
	s := newSiteOf(t, cluster, dashboard.Source{Memory: cluster.Source().Memory})
	b := openBrowser(t)
	b.open(s.URL + dashboard.ShellPrefix)
	b.signIn(goodToken)
	b.until("document.querySelector('#memory')?.innerText.includes('v1 protobuf 141 MB') && document.querySelectorAll('.panel').length === 1")
	b.until("document.querySelector('#live').innerText.includes('without an SLO')")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "\n"))
	}
}
