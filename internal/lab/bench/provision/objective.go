package provision

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/tool/render"
)

// The steps of a pod, and the delivery of its events.
const (
	stepBind      = "bind"      // created → bound to a node
	stepKubelet   = "kubelet"   // bound → seen by the node's kubelet
	stepRun       = "run"       // bound → ready, seen by a watcher
	stepProvision = "provision" // created → ready, seen by a watcher
	stepWatch     = "watch"     // an event's write → its delivery to one watcher
)

// step is a step of a pod, with its title in the report.
type step struct{ name, title string }

// steps returns the rows of the report, in their order.
func steps() []step {
	return []step{
		{stepProvision, "created → running"}, {stepBind, "created → bound"}, {stepKubelet, "bound → kubelet"},
		{stepRun, "bound → running"}, {stepWatch, "watch: write → delivery"},
	}
}

// stepNames returns the names of steps.
func stepNames() (names []string) {
	for _, s := range steps() {
		names = append(names, s.name)
	}
	return names
}

// objective is a bound on a percentile of a step's times.
type objective struct {
	Step       string        `json:"step"`
	Percentile float64       `json:"percentile"`
	Bound      time.Duration `json:"boundNanos"`
}

// String returns the objective as it is written on the command line.
func (o objective) String() string {
	return fmt.Sprintf("%s p%g<%s", o.Step, o.Percentile, o.Bound)
}

// parseObjectives parses a list such as "watch p99<1s,provision p95<15s".
func parseObjectives(text string) (all []objective, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		one, err := parseObjective(part)
		if err != nil {
			return nil, fmt.Errorf("--slo: %q %w: write STEP pNN<DURATION, as in %q, with a step of %s",
				strings.TrimSpace(part), err, "provision p95<15s", strings.Join(stepNames(), ", "))
		}
		all = append(all, one)
	}
	return all, nil
}

// parseObjective parses one objective. An error continues the sentence of parseObjectives, which starts
// with the text.
func parseObjective(text string) (o objective, err error) {
	left, right, ok := strings.Cut(text, "<")
	words := strings.Fields(left)
	if !ok || len(words) != 2 {
		return o, fmt.Errorf("is no objective")
	}
	if o.Step = words[0]; !slices.Contains(stepNames(), o.Step) {
		return o, fmt.Errorf("names no step")
	}
	digits, ok := strings.CutPrefix(words[1], "p")
	if o.Percentile, err = strconv.ParseFloat(digits, 64); !ok || err != nil || !(o.Percentile > 0 && o.Percentile <= 100) {
		return o, fmt.Errorf("has no percentile from above p0 to p100")
	}
	if o.Bound, err = time.ParseDuration(strings.TrimSpace(right)); err != nil || o.Bound <= 0 {
		return o, fmt.Errorf("has no duration")
	}
	return o, nil
}

// verdict is the measured value for an objective, and whether it was met. An objective is missed if
// nothing was measured of its step.
type verdict struct {
	objective
	Millis float64 `json:"millis"`
	Met    bool    `json:"met"`
}

// judge returns a verdict for each objective. sorted has the sorted samples of each step.
func judge(objectives []objective, sorted map[string][]time.Duration) (all []verdict) {
	for _, o := range objectives {
		samples := sorted[o.Step]
		measured := render.Percentile(samples, o.Percentile)
		all = append(all, verdict{o, render.Millis(measured), len(samples) > 0 && measured < o.Bound})
	}
	return all
}

// line returns a line on whether a path has met the objective.
func (v verdict) line(path string) string {
	word := "missed"
	if v.Met {
		word = "met"
	}
	return fmt.Sprintf("%-6s  %s: %s, measured %s", word, path, v.objective, milliseconds(v.Millis))
}
