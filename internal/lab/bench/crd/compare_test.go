package crd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

func quickArgs(args ...string) []string {
	return append([]string{"crd", "--crds=9", "--groups=3", "--properties=5", "--samples=2", "--workers=3", "--rest=1ms"}, args...)
}

func TestCompare(t *testing.T) {
	out, progress, err := run(t, quickArgs("--compare", "--objects=20", "-o=json")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got report
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Servers) != 2 || got.Servers[0].Name != testbed.ReadPathMillrace || got.Servers[1].Name != testbed.ReadPathKubernetes || got.Data.CRDs != 9 {
		t.Fatalf("got %+v", got)
	}
	for _, s := range got.Servers {
		for _, point := range measuringPoints() {
			if state := point.state(&s); state == nil || state.RSSBytes <= 0 || state.Goroutines != 321 {
				t.Errorf("%s, %s: got %+v", s.Name, point.name, state)
			}
		}
		in := s.Install
		if in == nil || in.WrittenSeconds <= 0 || in.ListedSeconds < in.WrittenSeconds || in.AnsweredSeconds < in.ListedSeconds || in.EstablishedSeconds <= 0 {
			t.Errorf("got %+v", in)
		}
		if s.ObjectsPerSecond <= 0 {
			t.Errorf("created %g custom objects a second", s.ObjectsPerSecond)
		}
		if s.OpenAPI == nil || s.OpenAPI.V3Documents != 3 || s.OpenAPI.V2.Bytes <= 0 || s.OpenAPI.V3.Bytes <= 0 {
			t.Errorf("got %+v", s.OpenAPI)
		}
		if s.Restart == nil || s.Restart.ReadySeconds <= 0 || s.Restart.ListedSeconds < s.Restart.ReadySeconds || s.Delete == nil {
			t.Errorf("got %+v, %+v", s.Restart, s.Delete)
		}
		if len(s.Requests) != 7 || s.Requests[0].Kinds != 2 || s.Requests[0].Refused != 1 || s.Requests[1].Refused != 0 || s.Requests[0].Millis.P50 <= 0 ||
			s.Requests[0].Rounds != 1 || s.Requests[1].Rounds != 10 {
			t.Errorf("got %+v", s.Requests)
		}
	}

	report := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(report, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err = run(t, "crd", "--from="+report, "-o=markdown")
	if err != nil || !strings.Contains(out, "| after start: goroutines | 321 | 321 | 1.00x |") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// TestFailedStepIsInReport measures a server whose OpenAPI does not have the definitions.
func TestFailedStepIsInReport(t *testing.T) {
	out, _, err := run(t, quickArgs("--server-arg=--break=openapi")...)
	if err == nil || !strings.Contains(err.Error(), "1 workload failed") {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"failed on millrace: read OpenAPI: read /openapi/v2: it lacks /apis/g002.fill.millrace.dev/v1/", "after restart: RSS"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"-o yaml", "choose one of table, wide, json, markdown, svg"},
		{"--crds=1", "--crds=1: must be at least 2"},
		{"--groups=0", "--groups=0"},
		{"--groups=301", "groups is 301"},
		{"--properties=2", "properties is 2"},
		{"--workers=0", "--workers=0"},
		{"--samples=0", "--samples=0"},
		{"--rest=-1s", "--rest=-1s"},
		{"--timeout=0s", "--timeout=0s"},
		{"--read-paths=etcd", "choose among millrace, millrace-encoded, kubernetes, each once"},
		{"--skip-fill", "unknown flag"},
		{"--from=/nowhere", "read report"},
	} {
		_, _, err := run(t, append([]string{"crd"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("crd %s: got %v, want %q", c.args, err, c.message)
		}
	}
}

func TestSampledDefinitionsAreDisjoint(t *testing.T) {
	for _, c := range []struct{ crds, samples, want int }{{2, 100, 1}, {9, 2, 2}, {9, 100, 4}, {300, 100, 100}, {2000, 100, 100}} {
		o := Options{Data: Data{CRDs: c.crds}, Plan: Plan{Samples: c.samples}}
		asked, written := o.sampleDefinitions()
		if len(asked) != c.want || len(written) != c.want {
			t.Errorf("%+v: asked %v, written %v", c, asked, written)
		}
		all := slices.Sorted(slices.Values(append(asked, written...)))
		if len(slices.Compact(slices.Clone(all))) != 2*c.want || all[len(all)-1] >= c.crds {
			t.Errorf("%+v: %v", c, all)
		}
	}
}
