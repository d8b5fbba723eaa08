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

// condition is a condition of --fail-on: it holds if a figure of a report is above a value.
type condition struct {
	text, figure string
	most         float64 // the largest value with which it does not hold
}

// figures are the figures that conditions can name. CPU is the mean number of processors over the
// period.
var figures = map[string]func(*Report) float64{
	"cpu":        func(r *Report) float64 { return r.Total.CPU / r.Seconds },
	"list-cpu":   func(r *Report) float64 { return r.verbCPU("list") / r.Seconds },
	"client-cpu": (*Report).clientCPU,
	"saved-cpu":  (*Report).savedCPU,
	"bytes":      func(r *Report) float64 { return float64(r.Total.Bytes) / r.Seconds },
	"requests":   func(r *Report) float64 { return float64(r.Total.Requests) / r.Seconds },
	"findings":   func(r *Report) float64 { return float64(len(r.Findings)) },
}

// conditionHelp returns the part of a flag's help that lists the figures.
func conditionHelp() string {
	return "one of " + strings.Join(slices.Sorted(maps.Keys(figures)), ", ") + ", each a second, CPU in processors"
}

// parseCondition returns the condition of a text such as "list-cpu>0.5".
func parseCondition(text string) (condition, error) {
	name, value, found := strings.Cut(strings.ReplaceAll(text, " ", ""), ">")
	most, err := strconv.ParseFloat(value, 64)
	if !found || err != nil || figures[name] == nil {
		return condition{}, fmt.Errorf("--fail-on=%s: write FIGURE>NUMBER, where FIGURE is %s", display.Clean(text), conditionHelp())
	}
	return condition{text: text, figure: name, most: most}, nil
}

// ConditionError says that a condition of --fail-on holds.
type ConditionError struct {
	condition string
	value     float64
}

// Error implements error.
func (e *ConditionError) Error() string {
	return fmt.Sprintf("--fail-on '%s': it is %.3g", e.condition, e.value)
}

// ExitCode returns the exit code of a command that ends with this error: not that of bad input.
func (e *ConditionError) ExitCode() int { return 2 }

// checkConditions returns a ConditionError for the first condition that holds.
func (r *Report) checkConditions(conditions []condition) error {
	for _, c := range conditions {
		if v := figures[c.figure](r); v > c.most {
			return &ConditionError{c.text, v}
		}
	}
	return nil
}

// verbCPU returns the CPU of all requests with a verb, in seconds.
func (r *Report) verbCPU(verb string) (sum float64) {
	for i := range r.Shapes {
		if r.Shapes[i].Verb == verb {
			sum += r.Shapes[i].CPU
		}
	}
	return sum
}

// clientCPU returns the mean number of processors that the most expensive client uses.
func (r *Report) clientCPU() float64 {
	if len(r.Clients) == 0 {
		return 0
	}
	return slices.MaxFunc(r.Clients, func(a, b ClientCost) int { return cmp.Compare(a.CPU, b.CPU) }).CPU / r.Seconds
}

// savedCPU returns the mean number of processors that the findings would save.
func (r *Report) savedCPU() (sum float64) {
	for _, saved := range r.savedByClient() {
		sum += saved
	}
	return sum / r.Seconds
}

// savedByClient returns the CPU that the findings would save of each client, in seconds. A request
// may have several findings, so only the largest saving for a client and a resource counts.
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
