package analyze

import (
	"strings"
	"testing"
	"time"
)

// advices returns the advice on the starts of clients by their programs.
func advices(r *Report) map[string]string {
	all := map[string]string{}
	for i := range r.Starts {
		all[r.Starts[i].UserAgent] = r.Starts[i].Advice
	}
	return all
}

// TestAdviceNamesTheBound has a fleet of pods, of nodes and of a user, whose starts cost little and
// much.
func TestAdviceNamesTheBound(t *testing.T) {
	w := newLog()
	for i := range 40 {
		at := time.Duration(i) * time.Minute
		w.informer(daemon("starter", i), "/api/v1/pods", "", at)
		kubelet := daemon("kubelet", i)
		kubelet.user, kubelet.pod = "system:node:"+kubelet.pod, ""
		w.informer(kubelet, "/api/v1/services", "", at)
		script := daemon("script", i)
		script.user, script.pod = "ci-bot", ""
		w.add(script, "list", "/api/v1/nodes", at, time.Millisecond, 200)
	}
	for cpu, want := range map[string]string{
		"100":  "At most 4 per minute, a tenth of the fleet",
		"0.01": "stay below 1% of a processor (--max-cpu)",
	} {
		all := advices(runAnalysis(t, w.bytes(), "--max-cpu="+cpu))
		advice := all["starter"]
		if !strings.Contains(advice, want) || strings.Contains(advice, "(--max-cpu)") == strings.Contains(advice, "CPU does not bound") {
			t.Errorf("--max-cpu=%s: got %s", cpu, advice)
		}
		for program, rollout := range map[string]bool{"starter": true, "kubelet": false, "script": false} {
			if strings.Contains(all[program], "maxUnavailable") != rollout {
				t.Errorf("%s: got %s", program, all[program])
			}
		}
	}
}

// Numbers are written out, whatever the size of a fleet is.
func TestAdviceForLargeFleets(t *testing.T) {
	w := newLog()
	for i := range 1500 {
		w.add(daemon("starter", i), "list", "/api/v1/pods?resourceVersion=0", time.Duration(i)*time.Second, time.Millisecond, 200)
	}
	for cpu, want := range map[string]string{"0.9": "At most 1", "0.03": "At most 4 starts per minute", "0.001": "maxUnavailable: 1 and minReadySeconds: "} {
		advice := advices(runAnalysis(t, w.bytes(), "--max-cpu="+cpu))["starter"]
		if !strings.Contains(advice, want) || strings.Contains(advice, "e+") || !strings.Contains(advice, "(--max-cpu)") {
			t.Errorf("--max-cpu=%s: got %s", cpu, advice)
		}
	}
}
