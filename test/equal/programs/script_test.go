package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// result is what a piece of shell printed, and its exit status.
type result struct {
	stdout, stderr string
	status         int
}

// command makes a command that runs in the side's directory, with its kubeconfig. All that
// it starts ends with it.
func (s *side) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + s.bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"KUBECONFIG=" + s.kubeconfig(), "HOME=" + s.dir, "TMPDIR=" + s.dir, "LC_ALL=C", "SIDE=" + s.name,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs shell commands.
func (s *side) run(ctx context.Context, shell string) result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := s.command(ctx, "sh", "-c", shell)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	got := result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
		got.stderr += err.Error()
	}
	return got
}

// step is a named piece of shell in a script, with the exit status that it must have.
type step struct {
	name, shell string
	status      int
	// sorted says that lines may come in any order.
	sorted bool
	// impersonates says that a user with a certificate acts for another user. A replica
	// that itself impersonates users of certificates refuses that.
	impersonates bool
}

// readScript reads the steps of a script below testdata. A step begins with its heading:
//
//	-- name [status=N] [sorted] [impersonates]
func readScript(tb testing.TB, name string) (steps []step) {
	tb.Helper()
	text := must(os.ReadFile(filepath.Join("testdata", name+".sh")))(tb)
	for line := range strings.Lines(string(text)) {
		heading, ok := strings.CutPrefix(line, "-- ")
		switch {
		case ok:
			s := step{}
			for _, word := range strings.Fields(heading) {
				if number, ok := strings.CutPrefix(word, "status="); ok {
					s.status = must(strconv.Atoi(number))(tb)
				} else if word == "sorted" {
					s.sorted = true
				} else if word == "impersonates" {
					s.impersonates = true
				} else {
					s.name = strings.TrimSpace(s.name + " " + word)
				}
			}
			steps = append(steps, s)
		case len(steps) > 0:
			steps[len(steps)-1].shell += line
		}
	}
	return steps
}

// script runs a script on all sides, step by step, and compares. A step that fails ends
// nothing: the next ones tell more.
func (c *cluster) script(t *testing.T, name string) {
	began := time.Now()
	steps := readScript(t, name)
	for _, one := range steps {
		t.Run(name+"/"+one.name, func(t *testing.T) {
			got := onEachSide(c, func(s *side) result { return s.normal(s.run(t.Context(), one.shell), one.sorted) })
			for i, s := range c.sides {
				if one.impersonates && s.what == "api" {
					if got[i].status != 1 || !strings.Contains(got[i].stderr, "cannot hand on the client certificate") {
						t.Errorf("%s: it is not refused: %+v", s.what, got[i])
					}
					continue
				}
				if got[i].status != one.status {
					t.Errorf("%s: exit status %d, want %d\n%s%s", s.what, got[i].status, one.status, got[i].stdout, got[i].stderr)
				}
				if got[i] != got[0] {
					t.Errorf("%s differs from straight:\n%s%s", s.what,
						difference(got[0].stdout, got[i].stdout), difference(got[0].stderr, got[i].stderr))
				}
			}
			if testing.Verbose() {
				t.Logf("%s%s", got[0].stdout, got[0].stderr)
			}
		})
	}
	t.Logf("%s: %d steps on %d sides in %v", name, len(steps), len(c.sides), time.Since(began).Round(time.Millisecond))
}

// difference lists lines of two texts: those that only one of them has.
func difference(straight, other string) string {
	var out strings.Builder
	list := func(sign, from, in string) {
		has := strings.Split(in, "\n")
		for line := range strings.Lines(from) {
			if line = strings.TrimSuffix(line, "\n"); !slices.Contains(has, line) {
				fmt.Fprintf(&out, "%s %s\n", sign, line)
			}
		}
	}
	list("-", straight, other)
	list("+", other, straight)
	if out.Len() == 0 && straight != other {
		return "the same lines in another order, or more often:\n" + other
	}
	return out.String()
}

// expand puts what a side's manifests need in their places.
func (s *side) expand(text string) string {
	return strings.NewReplacer("SIDE", s.name, "WEBPORT", strconv.Itoa(portOf(s.kubelet.web))).Replace(text)
}

// volatile are parts of outputs that differ from one run to the next, or from one side to
// the other, and what takes their place.
var volatile = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d \d{4}`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( [+-]\d{4})?`), "TIME"},
	{regexp.MustCompile(`[EIW]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+`), "LOG"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "TOKEN"},
	{regexp.MustCompile(`([rR]esourceVersion\\*"?[:=] ?)\\*"?\d+\\*"?`), "${1}RV"},
	// The numbers of diff's directories may look like a hash.
	{regexp.MustCompile(`\b(LIVE|MERGED)-\d+`), "$1"},
	{regexp.MustCompile(`pod-template-hash(["=: ]+)\w+`), "pod-template-hash${1}HASH"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}\b`), "-HASH"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-RANDOM"},
	{regexp.MustCompile(`\.[0-9a-f]{16}\b`), ".EVENT"},
	{regexp.MustCompile(`\b10\.(9[6-9]|10\d|11[01])\.\d+\.\d+\b`), "CLUSTER-IP"},
	{regexp.MustCompile(`node-[12]\.`), "node."},
	{regexp.MustCompile(`\b(\d+(y|d|h|m|s))+\b`), "AGE"},
	{regexp.MustCompile(`\(x\d+ over AGE\)`), ""},
	{regexp.MustCompile(`:3\d{4}/TCP`), ":NODEPORT/TCP"},
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
	{regexp.MustCompile(` {2,}`), "  "},
}

// normal takes out of a result what may differ.
func (s *side) normal(r result, sorted bool) result {
	r.stdout, r.stderr = s.normalText(r.stdout, sorted), s.normalText(r.stderr, sorted)
	return r
}

func (s *side) normalText(text string, sorted bool) string {
	text = strings.NewReplacer(s.dir, "DIR", s.URL, "SERVER", strings.TrimPrefix(s.URL, "https://"), "SERVER", s.name, "SIDE").Replace(text)
	for _, v := range volatile {
		text = v.from.ReplaceAllString(text, v.to)
	}
	if sorted {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		slices.Sort(lines)
		text = strings.Join(slices.Compact(lines), "\n") + "\n"
	}
	return text
}
