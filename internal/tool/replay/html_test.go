package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/render"
)

// TestPage writes a page of two servers. One of them lacks a client, and has no LIST of another.
func TestPage(t *testing.T) {
	cpu := 12.0
	agent, hostile := serverreport.Client{User: "u", UserAgent: "agent"}, serverreport.Client{User: "u", UserAgent: "<script>alert(1)</script>"}
	lister := serverreport.Client{User: "u", UserAgent: "lister"}
	r := &Report{Log: LogSummary{Requests: 10, Notes: []string{"audit.log.gz: lost: 1 record"}}, Options: Options{Speed: 2}, Servers: []ServerOutcome{
		{Address: "https://a", CPUSeconds: &cpu, Clients: []ClientOutcome{
			{Client: agent, Requests: 7, Bytes: 4000, ListMillis: &render.Latencies{P50: 1, P99: 40}}, {Client: hostile, Requests: 1, Bytes: 10},
			{Client: lister, Requests: 1, ListMillis: &render.Latencies{P50: 1, P99: 2}},
		}},
		{Address: "https://b", Clients: []ClientOutcome{{Client: agent, Requests: 7, Bytes: 1000, ListMillis: &render.Latencies{P50: 1, P99: 10}}, {Client: lister, Requests: 1}}},
	}}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := r.WritePage(file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 times as fast", "12s", "unknown", `aria-label="agent (u) at https://a: 40ms"`, `class="s1" width="250"`, "LISTs by client", `aria-label="lister (u) at https://b: -"`, `<th colspan="8">https://b</th>`, "audit.log.gz: lost",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, wrong := range []string{"<script>", "GETs by client", "http://", "NaN"} {
		if strings.Contains(string(page), wrong) {
			t.Errorf("the page has %q", wrong)
		}
	}
	if err := r.WritePage(filepath.Join(file, "below")); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a page below a file: %v", err)
	}
}
