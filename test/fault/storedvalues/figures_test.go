package storedvalues

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// TestFigures checks that an object that cannot be read, a definition under another key, and an
// answer with 500 are in the metrics, and that the page's report names them.
func TestFigures(t *testing.T) {
	c, _ := newCluster(t)
	maps := c.all[0]
	c.write(maps.key(oddName), []byte("k8s\x00broken"))
	definitions := "/registry/apiextensions.k8s.io/customresourcedefinitions/"
	c.write(definitions+"another."+group, c.read(definitions+"things."+group))
	if a := c.answered("with an odd object", maps.path(oddName)); a.status != 500 {
		t.Errorf("GET of an odd object: %v", a)
	}
	for path, wanted := range map[string][]string{
		"/metrics": {
			`millrace_cache_unreadable_objects{group="",resource="configmaps"} 1`, "millrace_definitions_unreadable 1",
			`millrace_request_failures_total{group="",resource="configmaps"} `, `millrace_panics_total{place="decode"} 0`,
		},
		"/debug/millrace/slo": {`"cause":"unreadable"`, namespace + "/" + oddName, "another." + group},
	} {
		if err := harness.Until(20*time.Second, func() error {
			a, err := c.ours.get(path)
			for _, want := range wanted {
				if err == nil && !strings.Contains(a.body, want) {
					err = fmt.Errorf("%s lacks %s", path, want)
				}
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	c.remove(maps.key(oddName))
	c.remove(definitions + "another." + group)
	if err := harness.Until(20*time.Second, func() error {
		a, err := c.ours.get("/metrics")
		if err == nil && (strings.Contains(a.body, "millrace_cache_unreadable_objects{") || !strings.Contains(a.body, "millrace_definitions_unreadable 0")) {
			err = harness.ErrNotYet
		}
		return err
	}); err != nil {
		t.Errorf("what is gone is still counted: %v", err)
	}
}
