package accounts

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/test/support/harness"
)

// idPrefix is the prefix of the load's audit IDs.
const idPrefix = "load-"

// load sends requests to one server.
type load struct {
	t                     *testing.T
	s                     *server
	admin, user, stranger *http.Client
	sent                  int
}

// request is a request of the load. {name} in its query stands for a learned value.
type request struct {
	method, path, query string
	header              map[string]string
	body                string
	as                  string
	// leavesEarly says that the client closes the connection after the first line.
	leavesEarly bool
	// learn are the fields of the answer's metadata that are learned.
	learn []string
	// want is the expected status; 0 means 200 or 201.
	want int
}

func newLoad(t *testing.T, s *server) *load {
	admin := s.HTTPClient()
	nobody := admin.Transport.(*http.Transport).Clone()
	nobody.TLSClientConfig.Certificates = []tls.Certificate{}
	t.Cleanup(nobody.CloseIdleConnections)
	return &load{t: t, s: s, admin: admin, user: &http.Client{Transport: nobody}, stranger: &http.Client{Transport: nobody}}
}

// scrape reads /metrics.
func (l *load) scrape() *metrics {
	req, err := http.NewRequest(http.MethodGet, l.s.URL+"/metrics", nil)
	if err != nil {
		l.t.Errorf("scrape: %v", err)
		return &metrics{}
	}
	req.Header.Set("Authorization", "Bearer "+scraperToken)
	resp, err := l.user.Do(req)
	if err != nil {
		l.t.Errorf("scrape: %v", err)
		return &metrics{}
	}
	defer resp.Body.Close()
	m, err := parse(resp.Body)
	if err != nil {
		l.t.Errorf("scrape: %v", err)
	}
	return m
}

func (l *load) build(ctx context.Context, r *request) (*http.Request, *http.Client, error) {
	query := r.query
	for name, value := range l.s.learned {
		query = strings.ReplaceAll(query, "{"+name+"}", value)
	}
	if query != "" {
		query = "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, r.method, l.s.URL+r.path+query, strings.NewReader(r.body))
	if err != nil {
		return nil, nil, err
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := l.admin
	switch r.as {
	case "user":
		client = l.user
		req.Header.Set("Authorization", "Bearer "+token)
	case "stranger":
		client = l.user
		req.Header.Set("Authorization", "Bearer stranger")
	case "nobody":
		client = l.stranger
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	l.sent++
	req.Header.Set("Audit-ID", fmt.Sprintf("%s%03d", idPrefix, l.sent))
	req.Header.Set("User-Agent", "load")
	return req, client, nil
}

// send sends a request and reads its answer to the end.
func (l *load) send(r request) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, client, err := l.build(ctx, &r)
	if err != nil {
		l.t.Errorf("%s %s: %v", r.method, r.path, err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		l.t.Errorf("%s %s?%s: %v", r.method, r.path, r.query, err)
		return
	}
	defer resp.Body.Close()
	if r.leavesEarly {
		_, _ = bufio.NewReader(resp.Body).ReadString('\n')
		return
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Errorf("%s %s?%s: %v", r.method, r.path, r.query, err)
	}
	if l.s.stock && r.want == http.StatusGatewayTimeout && resp.StatusCode == http.StatusInternalServerError && strings.Contains(string(body), "context deadline exceeded") {
		l.s.chance = "Kubernetes' handler was faster than its filter for a request whose time was over, and answered 500"
		return
	}
	if r.want == 0 && resp.StatusCode/100 != 2 || r.want != 0 && resp.StatusCode != r.want {
		l.t.Errorf("%s %s?%s at %s: status %d: %.300s", r.method, r.path, r.query, l.s.URL, resp.StatusCode, body)
	}
	l.learn(&r, resp, body)
}

func (l *load) learn(r *request, resp *http.Response, body []byte) {
	if len(r.learn) == 0 {
		return
	}
	var answer struct {
		Metadata map[string]any `json:"metadata"`
	}
	_ = json.Unmarshal(body, &answer)
	for _, name := range r.learn {
		value := fmt.Sprint(answer.Metadata[name])
		if name == "etag" {
			value = resp.Header.Get("ETag")
		}
		l.s.learned[name] = value
	}
}

// prepare creates a custom resource and waits until it is served.
func (l *load) prepare() {
	l.send(request{method: "POST", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body: definition})
	waitServed(l.t, func() (*http.Response, error) {
		req, err := http.NewRequest(http.MethodGet, l.s.URL+widgets, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+scraperToken)
		return l.user.Do(req)
	})
	l.compact()
}

// waitServed asks for a custom resource until it is served. Any goroutine may call it.
func waitServed(t *testing.T, ask func() (*http.Response, error)) {
	t.Helper()
	err := harness.Until(time.Minute, func() error {
		resp, err := ask()
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return harness.ErrNotYet
		}
		return nil
	})
	if err != nil {
		t.Errorf("wait for custom resource: %v", err)
	}
}

// compact makes etcd drop the first revisions.
func (l *load) compact() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := l.s.EtcdClient()
	now, err := client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		l.t.Errorf("read revision: %v", err)
		return
	}
	// API servers record the revision to which they compact.
	if _, err := client.Txn(ctx).Then(clientv3.OpPut("compact_rev_key", fmt.Sprint(now.Header.Revision))).Commit(); err != nil {
		l.t.Errorf("write revision: %v", err)
	}
	if _, err := client.Compact(ctx, now.Header.Revision); err != nil {
		l.t.Errorf("compact: %v", err)
	}
}

// run sends all requests one after another, then all watches concurrently.
func (l *load) run() {
	for _, r := range allRequests() {
		l.send(r)
	}
	var wg sync.WaitGroup
	var more atomic.Int64 // bookmarks behind the end of the initial events
	for _, r := range watchRequests() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		req, client, err := l.build(ctx, &r)
		if err != nil {
			l.t.Error(err)
			cancel()
			continue
		}
		wg.Go(func() {
			defer cancel()
			resp, err := client.Do(req)
			if err != nil {
				l.t.Error(err)
				return
			}
			defer resp.Body.Close()
			if r.leavesEarly {
				_, _ = bufio.NewReader(resp.Body).ReadString('\n')
				return
			}
			bookmarks := countBookmarks(resp.Body)
			if resp.StatusCode != max(r.want, http.StatusOK) {
				l.t.Errorf("watch %s?%s: status %d", r.path, r.query, resp.StatusCode)
			}
			more.Add(int64(max(bookmarks-1, 0)))
		})
	}
	wg.Wait()
	if l.s.stock && more.Load() > 0 {
		l.s.chance = "Kubernetes sent another bookmark within a second of the first, as it does if the revision has moved by then"
	}
}

// countBookmarks reads a watch to its end.
func countBookmarks(r io.Reader) (n int) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
			n++
		}
		if err != nil {
			return n
		}
	}
}

// holdWatches opens watches and sends writes that they see. The watches stay open until
// release is called.
func (l *load) holdWatches() (release func()) {
	const n = 5
	ctx, cancel := context.WithCancel(context.Background())
	var bodies []io.ReadCloser
	for range n {
		req, client, err := l.build(ctx, &request{method: "GET", path: "/api/v1/podtemplates", query: "watch=1&resourceVersion=0"})
		if err != nil {
			l.t.Error(err)
			continue
		}
		resp, err := client.Do(req)
		if err != nil {
			l.t.Error(err)
			continue
		}
		bodies = append(bodies, resp.Body)
	}
	l.send(request{method: "POST", path: templates, body: podTemplate("held")})
	// Watches that were cancelled before the event would count fewer events.
	for _, b := range bodies {
		lines := bufio.NewScanner(b)
		for lines.Scan() && !bytes.Contains(lines.Bytes(), []byte(`"name":"held"`)) {
		}
		if err := lines.Err(); err != nil {
			l.t.Errorf("read watch: %v", err)
		}
	}
	// For administrators, fairness does not look at the number of watches.
	l.send(request{method: "POST", path: templates, body: podTemplate("refused"), as: "user", want: 403})
	return func() {
		cancel()
		for _, b := range bodies {
			_ = b.Close()
		}
		err := harness.Until(10*time.Second, func() error {
			if l.scrape().series[`apiserver_longrunning_requests{component="apiserver",group="",resource="podtemplates",scope="cluster",subresource="",verb="WATCH",version="v1"}`] != 0 {
				return harness.ErrNotYet
			}
			return nil
		})
		if err != nil {
			l.t.Errorf("watches are still open at %s", l.s.URL)
		}
	}
}
