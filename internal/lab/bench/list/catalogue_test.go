package list

import (
	"os"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func TestCatalogueCounts(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		api := &benchtest.API{Pods: 600, Nodes: 4}
		l := newTestLoader(t, api, http2)
		sizes := map[string]int64{}
		for _, s := range specs() {
			w, err := s.workload(sampleObjects{"ns", "pod-0", "node-1", "app=web"}, "0")
			if err != nil {
				t.Fatal(err)
			}
			w.Concurrency = 3
			before := api.Requests.Load()
			res, _, err := l.Run(t.Context(), w)
			if err != nil {
				t.Fatalf("%s: %v", w.Name, err)
			}
			sizes[w.Name] = res.Bytes
			if sent := api.Requests.Load() - before; sent != 3+2+7 {
				t.Errorf("%s: %d requests sent, want 3 to connect, 2 to warm up and 7", w.Name, sent)
			}
			if res.Requests != 7 || res.Server == nil || res.Millis.Max < res.Millis.P50 {
				t.Errorf("%s: %+v", w.Name, res)
			}
			want := map[string]int{"nodes-json": 4, "pod-get": 1, "pods-of-node": 5, "pods-by-label": 5, "pods-limit": 500, "pods-table": 500,
				"agent-node": 4, "agent-pods": 5, "agent-namespaces": 2, "agent-services": 2, "agent-slices": 2, "agent-policies": 2}[w.Name]
			if want == 0 {
				want = 600
			}
			if res.Items != want {
				t.Errorf("%s: %d items, want %d", w.Name, res.Items, want)
			}
			if w.Encoding != res.ContentEncoding {
				t.Errorf("%s: content encoding %q", w.Name, res.ContentEncoding)
			}
		}
		if want := int64(len(benchtest.ProtobufList(600))); sizes["pods-protobuf"] != want {
			t.Errorf("%d bytes counted, want %d", sizes["pods-protobuf"], want)
		}
		if sizes["pods-json-gzip"] >= sizes["pods-json"]/2 {
			t.Errorf("gzip was unpacked: %d bytes of %d", sizes["pods-json-gzip"], sizes["pods-json"])
		}
		if entries, _ := os.ReadDir(l.CaptureDir); len(entries) != 0 {
			t.Errorf("%d captures left", len(entries))
		}
	}
}
