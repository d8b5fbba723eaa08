package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
)

// Report is the result of a run.
type Report struct {
	Started time.Time      `json:"started"`
	Version string         `json:"version,omitempty"`
	Seed    uint64         `json:"seed"`
	Seconds float64        `json:"seconds"`
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

// Counts are the sizes of the history.
type Counts struct {
	Writes  int `json:"writes"`
	Reads   int `json:"reads"`
	Watches int `json:"watches"`
	Frames  int `json:"frames"`
	// Unknown are writes whose outcome is not known, Refused those that were answered with what
	// no write here should be, and Unanswered reads and watches without an answer.
	Unknown    int `json:"unknownWrites"`
	Refused    int `json:"refusedWrites"`
	Unanswered int `json:"unanswered"`
}

// Violations counts the violations of all promises.
func (r *Report) Violations() (n int) {
	for i := range r.Checks {
		n += len(r.Checks[i].Violations)
	}
	return n
}

// ViolationsOf are the violations of a promise whose summaries begin with a guarantee. ""
// stands for any.
func (r *Report) ViolationsOf(p Promise, guarantee string) (found []Violation) {
	for i := range r.Checks {
		for _, v := range r.Checks[i].Violations {
			if v.Promise == p && strings.HasPrefix(v.Summary, guarantee) {
				found = append(found, v)
			}
		}
	}
	return found
}

// promises are all promises in the order of the report.
func promises() []Promise {
	return []Promise{
		OneHistory, Kept, WriteOrder, Conditional, Consistent, Linearizable, NotOlder, Exact, States, Pages, Watching, Fresh, Shown, Answers,
	}
}

func (r *run) report(c *checker) *Report {
	rec := r.record
	report := &Report{
		Started: r.start, Version: r.cfg.Version, Seed: r.cfg.Seed, Target: r.cfg.Target, Seconds: r.now().Seconds(), Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
		Clients: Clients{r.cfg.Writers, r.cfg.Readers, r.cfg.Watchers, r.cfg.Rate, r.cfg.Keys, r.cfg.Duration.String(), r.cfg.Timeout.String()},
		Counts: Counts{
			Writes: len(rec.mu.writes), Reads: len(rec.mu.reads), Watches: len(rec.mu.watches),
			Frames: int(rec.count.events.Load()), Unknown: int(rec.count.unknown.Load()),
		},
		Coverage: coverage(rec.mu.states),
	}
	for _, w := range rec.mu.writes {
		if !w.expected() {
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
		report.Checks = append(report.Checks, *c.of(p))
	}
	ctx, cancel := context.WithTimeout(context.Background(), interruptGrace)
	defer cancel()
	for _, s := range r.servers {
		version, _ := s.version(ctx) // a server may be away by now
		report.Servers = append(report.Servers, ServerReport{s.base, version})
	}
	return report
}

// version is what the server says of itself. An error says that it does not answer.
func (s *server) version(ctx context.Context) (string, error) {
	var version apiversion.Info
	got, err := s.call(ctx, http.MethodGet, "/version", nil, nil, nil)
	if err != nil {
		return unknownVersion, s.explain(err)
	}
	if json.Unmarshal(got.body, &version) != nil {
		return unknownVersion, nil
	}
	return version.GitVersion, nil
}

const unknownVersion = "unknown"

// Write writes the report for a person.
func (r *Report) Write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "promise\tchecked\tviolations\n")
	for i := range r.Checks {
		check := &r.Checks[i]
		found := "none"
		if n := len(check.Violations); n > 0 {
			found = fmt.Sprintf("%d  ✗", n)
		}
		if check.Undecided > 0 {
			found += fmt.Sprintf(", %d undecided", check.Undecided)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", check.Promise, check.Checked, found)
	}
	if err := w.Flush(); err != nil {
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
	fmt.Fprintf(to, "%d writes (%d of unknown outcome, %d refused), %d reads, %d watches with %d frames in %.0f s; %d reads and watches without an answer\n",
		n.Writes, n.Unknown, n.Refused, n.Reads, n.Watches, n.Frames, r.Seconds, n.Unanswered)
	for _, s := range r.Servers {
		fmt.Fprintf(to, "%s %s\n", s.URL, s.Version)
	}
	_, err := fmt.Fprintf(to, "%s\nonce more: %s\n", r.line(), r.command())
	return err
}

// line says by what and when a report was made.
func (r *Report) line() string {
	return fmt.Sprintf("Millrace %s, %s, %s", cmp.Or(r.Version, "unknown"), r.Machine, r.Started.UTC().Format(time.RFC3339))
}

// command is the command that draws the same requests.
func (r *Report) command() string {
	c := &r.Clients
	return fmt.Sprintf("millrace-tools verify%s --seed %d --duration %s --writers %d --readers %d --watchers %d --rate %g --names %d --request-timeout %s",
		r.Target, r.Seed, c.Duration, c.Writers, c.Readers, c.Watchers, c.Rate, c.Keys, c.Timeout)
}

// maxMissing is how many states that were not seen are shown.
const maxMissing = 10

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
