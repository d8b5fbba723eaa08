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
	// LoadAverages has the machine's load averages over a minute, before and after the run. A
	// high first one means that other programs were at work.
	LoadAverages []string `json:"loadAverages,omitempty"`
	// Kubeconfig is set if an existing server was measured.
	Kubeconfig bool         `json:"kubeconfig,omitempty"`
	Steps      []StepReport `json:"steps"`
	// Sections has the figures. complete derives them from Steps.
	Sections []Section `json:"sections"`

	paper    *Paper
	versions map[string]string // of servers
	remarks  [][]string        // of each step: refused requests and failures
}

// StepReport is one bench.
type StepReport struct {
	Name    string          `json:"name"`
	Args    []string        `json:"args"` // of "millrace-lab bench"
	Seconds float64         `json:"seconds"`
	Printed json.RawMessage `json:"report,omitempty"` // its output, which is JSON
	Error   string          `json:"error,omitempty"`
}

// Command returns the command line that repeats the step, quoted for a shell.
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

// complete sets the fields that follow from the steps. It must be called before the report is
// shown.
func (r *Report) complete() error {
	var err error
	if r.paper, err = loadPaper(r.Paper, size{scale: r.Scale}); err != nil {
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
		d, err := decodePrintout(s.Name, s.Printed)
		if err != nil {
			return err
		}
		all[s.Name] = d
		maps.Copy(r.versions, d.versions())
		r.remarks[i] = d.remarks()
	}
	r.Sections = nil
	for i := range r.paper.Sections {
		if s := r.paper.Sections[i].section(all); s.hasValues() {
			r.Sections = append(r.Sections, s)
		}
	}
	return nil
}

// hasValues reports whether any server has a figure in the section.
func (s *Section) hasValues() bool {
	return slices.ContainsFunc(s.Rows, func(r Row) bool { return len(r.Values) > 0 })
}

// failure returns an error if steps failed, also in part. It is the error of the command, also
// if the command only shows a saved report.
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

// text returns the report as a table for a terminal, or as Markdown.
func (r *Report) text(format string) string {
	servers := measuredServers(r.Sections)
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

// notes returns the lines below the tables: what was measured, how, and what differs from the
// paper.
func (r *Report) notes() []string {
	var notes []string
	for i := range r.Sections {
		if s := &r.Sections[i]; s.Note != "" {
			notes = append(notes, s.Title+": "+s.Note)
		}
	}
	notes = append(notes, fmt.Sprintf("Paper %s, %s. Published: %s", strings.ToUpper(r.Paper), r.paper.Title, r.paper.Original), r.scaleNote())
	notes = append(notes, r.paper.Differs...)
	if len(comparedServers(measuredServers(r.Sections))) > 0 {
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

// scaleNote returns a sentence about the size of the run, compared with the original.
func (r *Report) scaleNote() string {
	if r.Scale == 1 {
		return "Counts are the original's (--scale=1)."
	}
	return fmt.Sprintf("Counts are the original's times %g (--scale). Compare sizes, times and memory between the servers "+
		"here, and not with the published figures.", r.Scale)
}

// runNote returns sentences about the servers, the machine and the seed.
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
		return note + " CPU and memory are from the server's metrics: they count all that it has done since its start. The " +
			"peak memory is the highest reading, with at most one reading per second."
	}
	return note + " CPU and memory are the API servers' alone: etcd is a process of its own."
}
