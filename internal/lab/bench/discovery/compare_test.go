package discovery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	args := quickArgs("--compare", "--duration=20ms", "--rounds=2", "--appear=3", "-o=json")
	out, progress, err := run(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Servers) != 2 || got.Definitions == nil || got.Definitions.Groups != 3 {
		t.Fatalf("got %+v", got)
	}
	for _, s := range got.Servers {
		var names []string
		for _, res := range s.Results {
			names = append(names, res.Workload)
			if res.Requests < 1 || res.Server == nil || res.ColdMillis <= 0 || (res.Bytes == 0) != (res.Workload == "aggregated-304") {
				t.Errorf("got %+v", res)
			}
		}
		want := []string{
			"aggregated", "aggregated-gzip", "openapi-v3", "openapi-v3-group",
			"openapi-v2", "openapi-v2-gzip", "openapi-v2-protobuf", "openapi-v2-protobuf-gzip", "aggregated-304",
		}
		if !slices.Equal(names, want) {
			t.Errorf("got %q", names)
		}
		if len(s.Clients) != 3 || s.Clients[0].Requests != 2 || s.Clients[1].Requests != 6 || s.Clients[2].Rounds != 2 {
			t.Errorf("got %+v", s.Clients)
		}
		if s.Appear == nil || s.Appear.Definitions != 3 || s.Appear.Millis.P50 <= 0 {
			t.Errorf("got %+v", s.Appear)
		}
	}
	report := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(report, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err = run(t, "discovery", "--from="+report)
	if err != nil || !strings.Contains(out, "9 definitions of 5 properties in 3 groups") || !strings.Contains(out, "a new definition") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

func quickArgs(args ...string) []string {
	return append([]string{"discovery", "--crds=9", "--groups=3", "--properties=5", "--samples=2", "--workers=3", "--rest=1ms"}, args...)
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"--duration=0s", "--duration=0s"},
		{"--rounds=0", "--rounds=0"},
		{"--appear=0", "--appear=0"},
		{"--crds=1", "--crds=1"},
		{"--limits=50", "--limits=50"},
		{"--limits=0/100", "--limits=0/100"},
		{"--limits=5/many", "--limits=5/many"},
		{"--from=/nowhere", "read report"},
	} {
		_, _, err := run(t, append([]string{"discovery"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("discovery %s: got %v, want %q", c.args, err, c.message)
		}
	}
}
