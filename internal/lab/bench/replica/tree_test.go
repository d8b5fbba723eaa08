package replica

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func runTree(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return benchtest.Run(t, NewTreeCommand(), append([]string{"tree"}, args...)...)
}

// TestTree runs trees of fake replicas, which are proxies.
func TestTree(t *testing.T) {
	out, progress, err := runTree(t, append(quickArgs("--depths=0,2", "-o=json")[1:], "--informers=40")...)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	var got treeReport
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	// Each depth without informers and with them, and two clients at the root.
	if len(got.Results) != 5 || got.Fanout != 2 {
		t.Fatalf("got %+v", got)
	}
	for depth, setup := range map[int]string{0: depthSetup(0), 2: depthSetup(2)} {
		res := got.find(setup, 40)
		if res == nil || len(res.Tiers) != depth || res.Clients != 4 || res.Events != 4*res.Writes {
			t.Fatalf("%s: got %+v", setup, res)
		}
		for _, tier := range res.Tiers {
			if tier.RSSBytes <= 0 {
				t.Errorf("%s: got %+v", setup, res)
			}
		}
	}
	if n := got.replicaCount(got.find(depthSetup(2), 40)); n != 6 {
		t.Errorf("%d replicas, want 2 and 4", n)
	}
}

func TestTreeFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"--fanout=0", "--fanout=0"},
		{"--depths=-1", "--depths=-1"},
		{"--depths=7", "at most 64"},
		{"--fanout=65 --depths=1", "at most 64"},
		{"--informers=11", "--informers=11"},
	} {
		if _, _, err := runTree(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}
