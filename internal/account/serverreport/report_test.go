package serverreport_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// TestNewClient cuts names to their bounds, at whole characters.
func TestNewClient(t *testing.T) {
	for agent, name := range map[string]string{
		"kubelet/v1.36.3 (linux/amd64) kubernetes/abc": "kubelet", "Go-http-client/2.0": "Go-http-client", "a b": "a", "": "", "/v1": "",
		"a\x00b": "a", "naïve/1": "na", strings.Repeat("x", 500): strings.Repeat("x", 48),
	} {
		if got := serverreport.NewClient("u", agent).UserAgent; got != name {
			t.Errorf("%q: %q, want %q", agent, got, name)
		}
	}
	if got := serverreport.NewClient(strings.Repeat("ä", 100), "").User; got != strings.Repeat("ä", 64) {
		t.Errorf("a user of %d bytes, want 128", len(got))
	}
	if got := serverreport.NewClient("x"+strings.Repeat("ä", 100), "").User; got != "x"+strings.Repeat("ä", 63) {
		t.Errorf("%q", got)
	}
}

func TestFormatSelectors(t *testing.T) {
	if got := serverreport.FormatSelectors([]string{"b", "a", "b"}, []string{"f"}); got != "labels: a, b; fields: f" {
		t.Errorf("%q", got)
	}
	if got := serverreport.FormatSelectors([]string{"a"}, nil, "u"); got != "labels: a; shard: u" {
		t.Errorf("%q", got)
	}
	if got := serverreport.FormatSelectors(nil, []string{"f"}); got != "fields: f" {
		t.Errorf("%q", got)
	}
	if got := serverreport.FormatSelectors([]string{strings.Repeat("k", 1000)}, []string{"f"}); len(got) != 128 {
		t.Errorf("%q", got)
	}
}
