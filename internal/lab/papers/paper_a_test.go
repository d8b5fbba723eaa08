package papers

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestAgentOfFailedList shows a server that refused one of an agent's lists. It must get no sum:
// the sum of the other lists would make it look cheap.
func TestAgentOfFailedList(t *testing.T) {
	lists := []string{"agent-node", "agent-pods", "agent-namespaces", "agent-services", "agent-slices", "agent-policies"}
	server := func(name, failed string) map[string]any {
		var results []any
		for _, list := range lists {
			one := map[string]any{"workload": list, "server": map[string]any{"cpuMillis": 2.0}}
			if list == failed {
				one = map[string]any{"workload": list, "error": "429"}
			}
			results = append(results, one)
		}
		return map[string]any{"name": name, "results": results}
	}
	text, err := json.Marshal(map[string]any{"servers": []any{server("millrace", ""), server("kubernetes", "agent-pods")}})
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Paper: "a", Scale: 1, Steps: []StepReport{{Name: "lists", Printed: text}}}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	sums := 0
	for _, row := range r.Sections[len(r.Sections)-1].Rows {
		if !strings.Contains(row.Name, " agent") {
			continue
		}
		sums++
		if servers := slices.Collect(maps.Keys(row.Values)); !slices.Equal(servers, []string{"millrace"}) {
			t.Errorf("%s: got %v", row.Name, row.Values)
		}
		if want := 2.0 * float64(len(lists)); strings.HasPrefix(row.Name, "one ") && row.Values["millrace"] != want {
			t.Errorf("%s: got %v, want %g", row.Name, row.Values, want)
		}
	}
	if sums != 2 {
		t.Errorf("got %d sums: %+v", sums, r.Sections)
	}
}
