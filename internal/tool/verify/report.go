package verify

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace/millrace/internal/account/dashboard"
)

// Report is the result of a run. Its JSON is published: names of fields stay as they are.
type Report struct {
	Started time.Time      `json:"started"`
	Version string         `json:"version,omitempty"` // of Millrace
	Seed    uint64         `json:"seed"`
	Seconds float64        `json:"seconds"` // from the start to the end of all checks
	Servers []ServerReport `json:"servers"`
	// Target is Config.Target.
	Target  string  `json:"target,omitempty"`
	Machine string  `json:"machine"`
	Clients Clients `json:"clients"`
	Counts  Counts  `json:"counts"`
	Checks  []Check `json:"checks"`
	// Coverage is the scorecard.
	Coverage Coverage `json:"coverage"`
}

// ServerReport is a server that was verified.
type ServerReport struct {
	URL     string `json:"url"`
	Version string `json:"version"`
	// OwnReads has a row for each resource of the run if the server is a replica.
	OwnReads []OwnReads `json:"ownReads,omitempty"`
	// OwnReadsRefused says that the user may not ask whether the server is a replica.
	OwnReadsRefused bool `json:"ownReadsRefused,omitempty"`
}

// Clients are the parameters of a run.
type Clients struct {
	Writers  int     `json:"writers"`
	Readers  int     `json:"readers"`
	Watchers int     `json:"watchers"`
	Rate     float64 `json:"writesPerSecond"`
	Keys     int     `json:"keys"`
	Duration string  `json:"duration"`
	Timeout  string  `json:"requestTimeout"`
}

// Counts are the numbers of requests and frames in the record of a run.
type Counts struct {
	Writes     int `json:"writes"`
	Reads      int `json:"reads"`
	Watches    int `json:"watches"`
	Frames     int `json:"frames"`
	Unknown    int `json:"unknownWrites"` // writes of unknown outcome
	Refused    int `json:"refusedWrites"` // writes with a status that no write may have
	Unanswered int `json:"unanswered"`    // reads and watches without an answer
}

// Violations returns the number of violations of all promises.
func (r *Report) Violations() (n int) {
	for i := range r.Checks {
		n += len(r.Checks[i].Violations)
	}
	return n
}

// ViolationsOf returns the violations of a promise whose summaries start with a prefix. For the
// promise Watching the prefix is the name of a validator. "" is the prefix of all summaries.
func (r *Report) ViolationsOf(p Promise, prefix string) (violations []Violation) {
	for i := range r.Checks {
		for _, v := range r.Checks[i].Violations {
			if v.Promise == p && strings.HasPrefix(v.Summary, prefix) {
				violations = append(violations, v)
			}
		}
	}
	return violations
}

// promises returns all promises in the order of the report.
func promises() []Promise {
	return []Promise{
		OneHistory, Kept, WriteOrder, Conditional, Consistent, Linearizable, NotOlder, Exact, States, Pages, Watching, Fresh, Shown, Answers,
	}
}

// report returns the report of the run with the results of a checker. It asks each server for
// its version once more.
func (r *run) report(c *checker) *Report {
	rec := r.record
	report := &Report{
		Started: r.start, Seconds: r.now().Seconds(), Version: r.cfg.Version, Seed: r.cfg.Seed, Target: r.cfg.Target,
		Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
		Clients: Clients{r.cfg.Writers, r.cfg.Readers, r.cfg.Watchers, r.cfg.Rate, r.cfg.Keys, r.cfg.Duration.String(), r.cfg.Timeout.String()},
		Counts: Counts{
			Writes: len(rec.mu.writes), Reads: len(rec.mu.reads), Watches: len(rec.mu.watches),
			Frames: int(rec.count.frames.Load()), Unknown: int(rec.count.unknown.Load()),
		},
		Coverage: newCoverage(rec.mu.states),
	}
	for _, w := range rec.mu.writes {
		if !w.isExpected() {
			report.Counts.Refused++
		}
	}
	for _, read := range rec.mu.reads {
		if read.Status == 0 {
			report.Counts.Unanswered++
		}
	}
	for _, w := range rec.mu.watches {
		if w.Status == 0 {
			report.Counts.Unanswered++
		}
	}
	for _, p := range promises() {
		report.Checks = append(report.Checks, *c.check(p))
	}
	ctx, cancel := context.WithTimeout(context.Background(), interruptGrace)
	defer cancel()
	for _, s := range r.servers {
		version, _ := s.version(ctx) // a server may be down by now
		report.Servers = append(report.Servers, ServerReport{
			URL: s.base, Version: version, OwnReads: s.ownReads, OwnReadsRefused: s.ownReadsRefused,
		})
	}
	return report
}

// Write writes the report for people: what replicas answered themselves, a table of the promises, the
// violations, the scorecard and the provenance.
func (r *Report) Write(to io.Writer) error {
	for _, line := range r.OwnReadsLines() {
		fmt.Fprintf(to, "%s\n\n", line)
	}
	if err := r.writeChecks(to); err != nil {
		return err
	}
	for i := range r.Checks {
		r.Checks[i].write(to)
	}
	c := &r.Coverage
	fmt.Fprintf(to, "\nstates of the read API seen: %d of %d (%d %%)\n", c.Seen, c.Reachable, c.Percent())
	for n, state := range c.Missing {
		if n == maxMissing {
			fmt.Fprintf(to, "  … and %d more: -o json has all\n", len(c.Missing)-n)
			break
		}
		fmt.Fprintf(to, "  not seen: %s\n", state)
	}
	n := &r.Counts
	fmt.Fprintf(to, "%d writes (%d of unknown outcome, %d refused), %d reads, %d watches with %d frames in %.0f s; ",
		n.Writes, n.Unknown, n.Refused, n.Reads, n.Watches, n.Frames, r.Seconds)
	fmt.Fprintf(to, "%d reads and watches without an answer\n", n.Unanswered)
	for _, s := range r.Servers {
		fmt.Fprintf(to, "%s %s\n", s.URL, s.Version)
		if s.OwnReadsRefused {
			fmt.Fprintf(to, "  not known whether the server passes reads on, as a replica may: the user may not get %sreplica\n", dashboard.Prefix)
		}
	}
	_, err := fmt.Fprintf(to, "%s\nonce more: %s\n", r.provenance(), r.commandLine())
	return err
}

// writeChecks writes the table of the promises.
func (r *Report) writeChecks(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "promise\tchecked\tviolations\n")
	for i := range r.Checks {
		check := &r.Checks[i]
		result := "none"
		if n := len(check.Violations); n > 0 {
			result = fmt.Sprintf("%d  ✗", n)
		}
		if check.Undecided > 0 {
			result += fmt.Sprintf(", %d undecided", check.Undecided)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", check.Promise, check.Checked, result)
	}
	return w.Flush()
}

// provenance returns a line that says by what and when the report was made.
func (r *Report) provenance() string {
	return fmt.Sprintf("Millrace %s, %s, %s", cmp.Or(r.Version, "unknown"), r.Machine, r.Started.UTC().Format(time.RFC3339))
}

// commandLine returns the command that draws the same requests.
func (r *Report) commandLine() string {
	c := &r.Clients
	return fmt.Sprintf("millrace-tools verify%s --seed %d --duration %s --writers %d --readers %d --watchers %d ",
		r.Target, r.Seed, c.Duration, c.Writers, c.Readers, c.Watchers) +
		fmt.Sprintf("--rate %g --names %d --request-timeout %s", c.Rate, c.Keys, c.Timeout)
}

// maxMissing is the number of missing states of the read API that a report for people shows.
const maxMissing = 10

// write writes the violations with their stories, and the number of violations that it leaves out.
func (c *Check) write(to io.Writer) {
	for n := range c.Violations {
		if n == maxViolations {
			fmt.Fprintf(to, "\n… and %d more of %q: -o json has all\n", len(c.Violations)-n, c.Promise)
			return
		}
		v := &c.Violations[n]
		fmt.Fprintf(to, "\n✗ %s, at %s\n  %s\n", v.Promise, v.Server, v.Summary)
		for i := range v.Story {
			v.Story[i].write(to)
		}
	}
}
