package provision

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseObjectives(t *testing.T) {
	got, err := parseObjectives(" watch p99<1s, provision  p99.9 < 1m30s ")
	if err != nil || len(got) != 2 || got[0] != (objective{stepWatch, 99, time.Second}) || got[1] != (objective{stepProvision, 99.9, 90 * time.Second}) {
		t.Errorf("got %v, %v", got, err)
	}
	if text := got[1].String(); text != "provision p99.9<1m30s" {
		t.Errorf("got %q", text)
	}
	if got, err := parseObjectives(""); got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for text, why := range map[string]string{
		"watch p99":          "is no objective",
		"p99<1s":             "is no objective",
		"watch p99<1s,":      "is no objective",
		"start p99<1s":       "names no step",
		"watch 99<1s":        "has no percentile",
		"watch p0<1s":        "has no percentile",
		"watch p101<1s":      "has no percentile",
		"watch pNaN<1s":      "has no percentile",
		"watch p99<1":        "has no duration",
		"watch p99<0s":       "has no duration",
		"watch p99>1s":       "is no objective",
		"bind p50<1s < 2s":   "has no duration",
		"watch p99<1s;run":   "has no duration",
		"watch p99 is 1s<2s": "is no objective",
	} {
		_, err := parseObjectives(text)
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), strings.Join(stepNames(), ", ")) {
			t.Errorf("%q: got %v, want %q and the steps", text, err, why)
		}
	}
}

func TestJudge(t *testing.T) {
	objectives, err := parseObjectives("run p50<2s,run p100<2s,watch p99<1s")
	if err != nil {
		t.Fatal(err)
	}
	got := judge(objectives, map[string][]time.Duration{stepRun: {time.Second, 2 * time.Second}})
	if !got[0].Met || got[0].Millis != 1000 || got[1].Met || got[2].Met {
		t.Errorf("got %+v", got)
	}
}

// TestFailureMeetsNothing checks that a path that failed half way meets no objective.
func TestFailureMeetsNothing(t *testing.T) {
	res := result{Verdicts: []verdict{{objective{stepRun, 50, 2 * time.Second}, 1000, true}}}
	res.fail(errors.New("not done"))
	r := report{Results: []result{res}}
	if res.Verdicts[0].Met || r.FailureCount() != 1 || len(r.missedObjectives()) != 1 {
		t.Errorf("got %+v", res)
	}
}
