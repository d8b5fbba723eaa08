package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// condition is one of --fail-on: a figure of a report and the value that it may have.
type condition struct {
	text, figure string
	most         float64
}

// figures are what conditions can name. CPU is in processors, on average over the period.
var figures = map[string]func(*Report) float64{
	"cpu":        func(r *Report) float64 { return r.Total.CPU / r.Seconds },
	"list-cpu":   func(r *Report) float64 { return r.verbCPU("list") / r.Seconds },
	"client-cpu": (*Report).clientCPU,
	"saved-cpu":  (*Report).savedCPU,
	"bytes":      func(r *Report) float64 { return float64(r.Total.Bytes) / r.Seconds },
	"requests":   func(r *Report) float64 { return float64(r.Total.Requests) / r.Seconds },
	"findings":   func(r *Report) float64 { return float64(len(r.Findings)) },
}

func conditionHelp() string {
	return "one of " + strings.Join(slices.Sorted(maps.Keys(figures)), ", ") + ", each a second, CPU in processors"
}

func parseCondition(text string) (condition, error) {
	name, value, found := strings.Cut(strings.ReplaceAll(text, " ", ""), ">")
	most, err := strconv.ParseFloat(value, 64)
	if !found || err != nil || figures[name] == nil {
		return condition{}, fmt.Errorf("--fail-on=%s: write FIGURE>NUMBER, where FIGURE is %s", display.Clean(text), conditionHelp())
	}
	return condition{text: text, figure: name, most: most}, nil
}

// ConditionError says that a report does not meet a condition of --fail-on.
type ConditionError struct {
	condition string
	value     float64
}

// Error implements error.
func (e *ConditionError) Error() string {
	return fmt.Sprintf("--fail-on '%s': it is %.3g", e.condition, e.value)
}

// ExitCode is that of a command which ends with this error. Bad input has another one.
func (e *ConditionError) ExitCode() int { return 2 }

// check returns an error for the first condition that holds.
func (r *Report) check(conditions []condition) error {
	for _, c := range conditions {
		if v := figures[c.figure](r); v > c.most {
			return &ConditionError{c.text, v}
		}
	}
	return nil
}

func (r *Report) verbCPU(verb string) (sum float64) {
	for i := range r.Shapes {
		if r.Shapes[i].Verb == verb {
			sum += r.Shapes[i].CPU
		}
	}
	return sum
}

// clientCPU is that of the most expensive client.
func (r *Report) clientCPU() float64 {
	if len(r.Clients) == 0 {
		return 0
	}
	return slices.MaxFunc(r.Clients, func(a, b ClientCost) int { return cmp.Compare(a.CPU, b.CPU) }).CPU / r.Seconds
}

func (r *Report) savedCPU() (sum float64) {
	for _, saved := range r.savedByClient() {
		sum += saved
	}
	return sum / r.Seconds
}

// savedByClient is what the findings would save of each client. One request may have two
// findings: a client's requests for one resource count with the larger one.
func (r *Report) savedByClient() map[serverreport.Client]float64 {
	type use struct {
		client   serverreport.Client
		resource string
	}
	best, saved := map[use]float64{}, map[serverreport.Client]float64{}
	for i := range r.Findings {
		f := &r.Findings[i]
		key := use{f.Client, f.Resource}
		if extra := f.SavedCPU - best[key]; extra > 0 {
			best[key] = f.SavedCPU
			saved[f.Client] += extra
		}
	}
	return saved
}
