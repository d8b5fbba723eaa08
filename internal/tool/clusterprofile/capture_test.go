package clusterprofile

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// podServer returns a server with 1,200 pods in 12 namespaces on 60 nodes, with 3 values of a
// label.
func podServer(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"gitVersion":"v1.37.2"}`) })
	for path, body := range map[string]string{
		"/api": `{"versions":["v1"]}`, "/apis": `{"groups":[]}`,
		"/api/v1": `{"resources":[{"name":"pods","verbs":["list"]},{"name":"pods/log","verbs":["get"]},{"name":"nodes","verbs":["list"]},{"name":"secrets","verbs":["list"]}]}`,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	}
	mux.HandleFunc("/api/v1/secrets", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("/api/v1/pods", func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.Header.Get("Accept"), "protobuf") {
			fmt.Fprint(w, strings.Repeat("x", 500*70))
			return
		}
		first := 0
		_, _ = fmt.Sscan(req.URL.Query().Get("continue"), &first) // none is the first page
		var items []string
		for i := first; i < min(first+500, 1200); i++ {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":"secret-name","namespace":"n%d","labels":{"tier":"v%d","pod":"p%d"}},"spec":{"nodeName":"node-%d"}}`, i/100, i%3, i, i%60))
		}
		token, remaining := "", ""
		if next := first + len(items); next < 1200 {
			token, remaining = fmt.Sprint(next), fmt.Sprintf(`,"remainingItemCount":%d`, 1200-next)
		}
		fmt.Fprintf(w, `{"kind":"PodList","metadata":{"continue":%q%s},"items":[%s]}`, token, remaining, strings.Join(items, ","))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestCapture(t *testing.T) {
	s := podServer(t)
	for _, sample := range []int{10_000, 500} {
		p, err := Capture(context.Background(), Config{Client: s.Client(), Host: s.URL, Sample: sample, Progress: func(string) {}, Exclude: []string{"nodes"}})
		if err != nil {
			t.Fatal(err)
		}
		pods := p.Find("pods")
		if pods == nil || pods.Objects != 1200 || pods.Namespaces != 12 || pods.ProtobufBytes != 70 || pods.Bytes < 100 || p.Version != "v1.37.2" {
			t.Fatalf("%d objects read: got %+v", sample, pods)
		}
		for keys, want := range map[string]float64{"tier": 1. / 3, "pod": 1. / 1200} {
			if got := pods.SelectedFraction([]string{keys}, nil); got < 0.95*want || got > 1.05*want {
				t.Errorf("%d objects read: a value of %s has %g of the objects, want %g", sample, keys, got, want)
			}
		}
		if got := pods.SelectedFraction(nil, []string{"spec.nodeName"}); got != 1./60 {
			t.Errorf("%d objects read: a node has %g of the pods", sample, got)
		}
		if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "secrets") {
			t.Errorf("notes %q", p.Notes)
		}
	}
}
