package papers

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// Report is one run of a paper. "-o json" prints it.
type Report struct {
	Paper    string          `json:"paper"`
	Scale    float64         `json:"scale"`
	Seed     uint64          `json:"seed"`
	Millrace string          `json:"millrace"` // the version of this program
	Started  time.Time       `json:"started"`
	Machine  testbed.Machine `json:"machine"`
	// LoadAverages are those of the machine over a minute, before and after the run. Before it
	// nothing of the run counts.
	LoadAverages []string `json:"loadAverages,omitempty"`
	// Kubeconfig says that a server was measured that was not started for it.
	Kubeconfig bool         `json:"kubeconfig,omitempty"`
	Steps      []StepReport `json:"steps"`
	// Sections are the figures. They follow from Steps.
	Sections []Section `json:"sections"`

	paper    *Paper
	versions map[string]string // of servers
	remarks  [][]string        // of each step: what was refused and what failed
}

// StepReport is one bench.
type StepReport struct {
	Name    string          `json:"name"`
	Args    []string        `json:"args"` // of "millrace-lab bench"
	Seconds float64         `json:"seconds"`
	Printed json.RawMessage `json:"report,omitempty"` // what it printed as JSON
	Error   string          `json:"error,omitempty"`
}

// Command is what repeats the step.
func (s *StepReport) Command() string {
	words := []string{"millrace-lab bench"}
	for _, arg := range s.Args {
		if strings.ContainsAny(arg, " $'\"*;&|<>(){}\\") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// complete sets what follows from the steps.
func (r *Report) complete() error {
	var err error
	if r.paper, err = read(r.Paper, size{scale: r.Scale}); err != nil {
		return fmt.Errorf("show report: %w", err)
	}
	all := map[string]printout{}
	r.versions = map[string]string{}
	r.remarks = make([][]string, len(r.Steps))
	for i := range r.Steps {
		s := &r.Steps[i]
		if len(s.Printed) == 0 {
			continue
		}
		d, err := decode(s.Name, s.Printed)
		if err != nil {
			return err
		}
		all[s.Name] = d
		maps.Copy(r.versions, d.versions())
		r.remarks[i] = d.remarks()
	}
	r.Sections = nil
	for i := range r.paper.Sections {
		if s := r.paper.Sections[i].section(all); s.measured() {
			r.Sections = append(r.Sections, s)
		}
	}
	return nil
}

// measured reports whether any server has a figure in the section.
func (s *Section) measured() bool {
	return slices.ContainsFunc(s.Rows, func(r Row) bool { return len(r.Values) > 0 })
}

// failure is the error of a run, or of showing one, some of whose steps failed, or failed in
// part.
func (r *Report) failure() error {
	n := 0
	for _, s := range r.Steps {
		if s.Error != "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s failed, see the report", display.Plural(n, "step"))
}

// Write prints the report in one of the formats of --output.
func (r *Report) Write(out io.Writer, format string) error {
	return render.WriteReport(out, format, r, r.text)
}

// text renders the report as "table" or "markdown".
func (r *Report) text(format string) string {
	servers := serversOf(r.Sections)
	var tables []render.TitledTable
	for _, s := range r.Sections {
		t := render.TitledTable{Title: s.Title, Table: render.Table{Columns: render.ColumnsOf(headings(servers)...)}}
		for i := range s.Rows {
			t.Table.Add(s.Rows[i].cells(servers)...)
		}
		tables = append(tables, t)
	}
	return render.Document(format, nil, tables, r.notes())
}

// notes say what was measured, what differs from the paper, and how.
func (r *Report) notes() []string {
	var notes []string
	for i := range r.Sections {
		if s := &r.Sections[i]; s.Note != "" {
			notes = append(notes, s.Title+": "+s.Note)
		}
	}
	notes = append(notes, fmt.Sprintf("Paper %s, %s. Published: %s", strings.ToUpper(r.Paper), r.paper.Title, r.paper.Original), r.scaleNote())
	notes = append(notes, r.paper.Differs...)
	if len(compared(serversOf(r.Sections))) > 0 {
		notes = append(notes, "A ratio says how many times better Millrace is; below 1 it is worse.")
	}
	notes = append(notes, r.runNote())
	for i := range r.Steps {
		s := &r.Steps[i]
		line := fmt.Sprintf("Step %s, %s s: %s", s.Name, render.FormatNumber(s.Seconds), s.Command())
		if s.Error != "" {
			line += ". It failed: " + s.Error
		}
		notes = append(append(notes, line), r.remarks[i]...)
	}
	return notes
}

// scaleNote says how the run compares with the original in size.
func (r *Report) scaleNote() string {
	if r.Scale == 1 {
		return "Counts are the original's (--scale=1)."
	}
	return fmt.Sprintf("Counts are those of the original times %g (--scale). Sizes, times and memory are to be compared between servers here, and not with the published ones.", r.Scale)
}

// runNote names the servers, the machine and the seed.
func (r *Report) runNote() string {
	var servers []string
	for _, n := range serverNames() {
		if v := r.versions[n[0]]; v != "" {
			servers = append(servers, n[1]+" "+v)
		}
	}
	note := fmt.Sprintf("Millrace %s; %s; seed %d; %s UTC.", r.Millrace, r.Machine, r.Seed, r.Started.UTC().Format("2006-01-02 15:04"))
	if len(servers) > 0 {
		note = strings.Join(servers, ", ") + "; " + note
	}
	if len(r.LoadAverages) == 2 {
		note += fmt.Sprintf(" The load average was %s before and %s after the run.", r.LoadAverages[0], r.LoadAverages[1])
	}
	if r.Kubeconfig {
		return note + " CPU and memory are those that the server tells in its metrics, for all that it does, since its start: what went before counts. The most memory is that of readings, once a second at most."
	}
	return note + " CPU and memory are the API servers' alone: etcd is a process of its own."
}
