package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

const (
	replicaPassedOnMetric  = "millrace_replica_passed_on_total"
	replicaDocumentsMetric = "millrace_replica_discovery_requests_total"
)

// tally is a table of what replicas were compared in, what they answered, and why they
// passed requests on.
type tally struct{ rows []tallyRow }

type tallyRow struct {
	part                 string
	compared, mismatched int64
	// grown is how much the replica's counters grew. Requests that were repeated, those of
	// writers, and those by which the test waits are among them.
	grown counts
}

// part runs a part of a comparison and adds its row.
func (table *tally) part(t *testing.T, p *pair, name string, compare func(*testing.T)) {
	t.Helper()
	before, compared, mismatched := p.tallied(t), p.compared.Load(), p.mismatched.Load()
	defer func() { // a part may end by FailNow
		row := tallyRow{part: name, compared: p.compared.Load() - compared, mismatched: p.mismatched.Load() - mismatched, grown: counts{}}
		for name, n := range p.tallied(t) {
			row.grown[name] = n - before[name]
		}
		table.rows = append(table.rows, row)
	}()
	compare(t)
}

// tallied returns the replica's counters.
func (p *pair) tallied(t *testing.T) counts {
	t.Helper()
	return p.metrics(t, servedMetric, passedOnMetric, replicaPassedOnMetric, replicaDocumentsMetric)
}

// answered returns how many requests the replica has answered itself.
func (row *tallyRow) answered() (n float64) {
	for name, grown := range row.grown {
		if strings.HasPrefix(name, servedMetric) || strings.HasPrefix(name, replicaDocumentsMetric) {
			n += grown
		}
	}
	return n
}

// reasons returns how many requests were passed on for each reason. The tier's reasons and
// those of the replica have names in common.
func (row *tallyRow) reasons() (counts, float64) {
	reasons, total := counts{}, 0.0
	for name, grown := range row.grown {
		if grown == 0 || !strings.HasPrefix(name, passedOnMetric) && !strings.HasPrefix(name, replicaPassedOnMetric) {
			continue
		}
		_, label, _ := strings.Cut(name, `reason="`)
		reason, _, _ := strings.Cut(label, `"`)
		reasons[reason] += grown
		total += grown
	}
	return reasons, total
}

// String returns the table.
func (table *tally) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FEED, PART\tCOMPARED\tMISMATCHES\tANSWERED\tPASSED ON\tBY REASON")
	for i := range table.rows {
		row := &table.rows[i]
		reasons, total := row.reasons()
		var each []string
		for _, reason := range slices.Sorted(maps.Keys(reasons)) {
			each = append(each, fmt.Sprintf("%s %.0f", reason, reasons[reason]))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\t%.0f\t%s\n", row.part, row.compared, row.mismatched, row.answered(), total, strings.Join(each, ", "))
	}
	_ = w.Flush() // a strings.Builder returns no error
	return out.String()
}
