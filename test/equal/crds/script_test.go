package crds

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the statuses of the stock server into the scripts")

// step is a step of a script. Scripts are texts in testdata/scripts. A step begins with a
// line
//
//	> verb words… => status
//
// Lines "@name: value" set options, and the body follows them. Lines that begin with "# "
// are comments. The verbs are HTTP methods, with a path, and those in the table verbs. The
// status is that of the stock server's answer; -rewrite writes it. run.fill documents the
// variables ${…}.
type step struct {
	line int
	verb string
	// words are the words after the verb.
	words []string
	// status is the expected status, and 0 for any. If it is fixed, -rewrite does not
	// change it.
	status int
	fixed  bool
	// theirStatus is the status of the stock server's answer.
	theirStatus int
	options     map[string]string
	body        string
}

func (s *step) String() string {
	return fmt.Sprintf("line %d: %s %s", s.line, s.verb, strings.Join(s.words, " "))
}

// word returns the i-th word after the verb, or "" if there is none.
func (s *step) word(i int) string {
	if i >= len(s.words) {
		return ""
	}
	return s.words[i]
}

func readScript(text string) ([]*step, error) {
	var steps []*step
	var last *step
	head := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			line, status, stated := strings.Cut(line[2:], " => ")
			words := strings.Fields(line)
			last = &step{line: i + 1, verb: words[0], words: words[1:], options: map[string]string{}}
			if stated {
				number, err := strconv.Atoi(strings.TrimSpace(status))
				if err != nil {
					return nil, fmt.Errorf("line %d: status: %w", i+1, err)
				}
				last.status = number
			}
			steps = append(steps, last)
			head = true
		case strings.HasPrefix(line, "# "), last == nil && line == "":
		case last == nil:
			return nil, fmt.Errorf("line %d: text before the first step", i+1)
		case head && strings.HasPrefix(line, "@"):
			name, value, _ := strings.Cut(line[1:], ":")
			last.options[name] = strings.TrimSpace(value)
		default:
			head = false
			last.body += line + "\n"
		}
	}
	for _, s := range steps {
		s.body = strings.TrimRight(s.body, "\n")
	}
	return steps, nil
}

// verbs has the steps that are not plain requests.
var verbs = map[string]func(*run, *step){
	"define":    (*run).define,
	"redefine":  (*run).redefine,
	"try":       (*run).try,
	"undefine":  (*run).undefine,
	"settle":    (*run).settleStep,
	"discovery": (*run).discovery,
	"openapi":   (*run).openAPI,
	"stored":    (*run).compareStored,
	"until":     (*run).until,
	"watch":     (*run).watch,
	"events":    (*run).events,
	"closed":    (*run).closed,
}

// scriptNames returns the names of the scripts' files, without their endings.
func scriptNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata/scripts")
	if err != nil {
		t.Fatalf("list scripts: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".txt"))
	}
	return names
}

// script runs a script. Each script has a group of its own, so several can run at a time.
func (r *run) script(t *testing.T, name string) {
	file := path.Join("testdata", "scripts", name+".txt")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read script: %v", err)
	}
	steps, err := readScript(string(text))
	if err != nil {
		t.Fatalf("script %s: %v", name, err)
	}
	for _, s := range steps {
		r.at = name + ", " + s.String()
		if run := verbs[s.verb]; run != nil {
			run(r, s)
		} else {
			r.plain(s)
		}
	}
	r.closeWatches()
	if *rewrite {
		writeStatuses(t, file, string(text), steps)
	}
}

func writeStatuses(t *testing.T, file, text string, steps []*step) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for _, s := range steps {
		if verbs[s.verb] == nil || s.verb == "try" || s.verb == "watch" {
			line, _, _ := strings.Cut(lines[s.line-1], " => ")
			lines[s.line-1] = fmt.Sprintf("%s => %d", line, s.status)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatalf("write script: %v", err)
	}
}

// plain sends a request and compares the answers. With the option "eventually" it repeats the
// request until the answers agree and have the expected status.
func (r *run) plain(s *step) {
	if s.options["eventually"] != "" {
		r.eventually(func() (string, error) { return r.request(s, true) })
		return
	}
	mismatch, err := r.request(s, false)
	r.report(mismatch, err)
}

// request sends a step's request to both sides, and returns how the answers differ. If again
// is set, the request may be repeated, and answers that differ change no variables.
func (r *run) request(s *step, again bool) (string, error) {
	var calls [2]call
	for i := range calls {
		c, err := r.call(i, s)
		if err != nil {
			return "", err
		}
		calls[i] = c
	}
	return r.ask(calls, s, again)
}

func (r *run) ask(calls [2]call, s *step, again bool) (string, error) {
	var answers [2]*answer
	err := r.pair.both(func(i int, side *side) (err error) {
		answers[i], err = side.do(calls[i])
		return err
	})
	if err != nil {
		return "", err
	}
	normalisers := r.normalisers
	if again {
		normalisers = normalisers.fork()
	}
	mismatch := normalisers.difference(answers, scopeOf(calls[0]))
	theirs := answers[1].status
	s.theirStatus = theirs
	if *rewrite && !again && !s.fixed {
		s.status = theirs
	} else if s.status != 0 && theirs != s.status {
		mismatch += fmt.Sprintf("  the stock server answers %d, not %d: %.600s\n", theirs, s.status, answers[1].body)
	}
	if mismatch == "" || !again {
		r.normalisers = normalisers
		r.pair.requests.Add(1)
		r.capture(answers, s.options["as"])
		r.trace(calls[1], answers[1])
	}
	return mismatch, nil
}

var patchTypes = map[string]string{http.MethodPatch: "merge", http.MethodPost: "json", http.MethodPut: "json", http.MethodDelete: "json"}

// call returns a step's request for a side.
func (r *run) call(i int, s *step) (call, error) {
	c := call{method: s.verb, header: http.Header{}, path: r.fill(i, strings.Join(s.words, "%20")), body: r.fill(i, s.body)}
	kind := s.options["type"]
	if kind == "" {
		kind = patchTypes[s.verb]
	}
	if c.body != "" {
		c.header.Set("Content-Type", short(contents, kind))
	}
	c.header.Set("Accept", "application/json")
	if a, ok := s.options["accept"]; ok {
		c.header.Set("Accept", short(accepts, a))
	}
	_, raw := s.options["raw"]
	if c.body != "" && !raw && kind != "apply" && kind != "yaml" {
		plain, err := yaml.YAMLToJSON([]byte(c.body))
		if err != nil {
			return c, fmt.Errorf("read body: %w", err)
		}
		c.body = string(plain)
	}
	return c, nil
}

func short(table map[string]string, name string) string {
	if long, ok := table[name]; ok {
		return long
	}
	return name
}

var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

// fill replaces the variables ${…} in a text:
//
//	group            the group of the script's definitions
//	crds             the path of definitions
//	rv, uid, name, continue   of the last object or list that was answered
//	rv:label, …      of the answer to the step that has the label as option "as"
//	x*100            100 times x
//	hook, ca         the address and authority of the conversion webhook
func (r *run) fill(i int, text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		name := match[2 : len(match)-1]
		if what, times, ok := strings.Cut(name, "*"); ok {
			n, _ := strconv.Atoi(times)
			return strings.Repeat(what, n)
		}
		switch name {
		case "group":
			return r.group
		case "crds":
			return definitionsPath
		case "hook":
			return r.pair.webhook.url
		case "ca":
			return r.pair.webhook.ca
		}
		return r.vars[i][name]
	})
}
