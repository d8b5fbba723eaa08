package crds

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// run is a sequence of requests that are sent to both sides and compared.
type run struct {
	pair *pair
	// group is the group of definitions that name none.
	group       string
	normalisers normaliserPair
	// vars has the variables of each side for later requests (fill).
	vars [2]map[string]string
	// at describes the current step, for messages.
	at string
	// errorf reports a difference.
	errorf func(format string, args ...any)
	fatalf func(format string, args ...any)
	// defined maps the names of definitions that this run made to their groups.
	defined map[string]string
	// revision counts definitions and their changes, for their marks.
	revision int
	watches  map[string]*watch
}

func newRun(t *testing.T, p *pair, group string) *run {
	return &run{
		pair: p, group: group, normalisers: newNormaliserPair(), errorf: t.Errorf, fatalf: t.Fatalf,
		vars:    [2]map[string]string{{}, {}},
		defined: map[string]string{}, watches: map[string]*watch{},
	}
}

func (r *run) report(mismatch string, err error) {
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	if mismatch != "" {
		r.errorf("%s\n%s", r.at, mismatch)
	}
}

// settleTimeout bounds the wait for controllers, on a busy machine.
const settleTimeout = 90 * time.Second

// eventually repeats a comparison until both sides agree.
func (r *run) eventually(compare func() (mismatch string, err error)) {
	err := harness.Until(settleTimeout, func() error {
		mismatch, err := compare()
		if err == nil && mismatch != "" {
			err = errors.New(mismatch)
		}
		return err
	})
	if err != nil {
		r.errorf("%s: not settled after %v\n%s", r.at, settleTimeout, err)
	}
}

// capture sets the variables of each side from its answer.
func (r *run) capture(answers [2]*answer, label string) {
	for i, a := range answers {
		var object struct {
			Metadata struct {
				ResourceVersion, UID, Name, Continue string
			}
		}
		if json.Unmarshal(a.body, &object) != nil {
			continue
		}
		m := object.Metadata
		for name, value := range map[string]string{
			"rv": m.ResourceVersion, "uid": m.UID, "name": m.Name, "continue": url.QueryEscape(m.Continue),
		} {
			if value != "" {
				r.vars[i][name] = value
				if label != "" {
					r.vars[i][name+":"+label] = value
				}
			}
		}
	}
}

// traceVariable is the environment variable with the name of a file for the stock server's
// answers. They help to write scripts.
const traceVariable = "MILLRACE_CRD_TRACE"

func (r *run) trace(c call, a *answer) {
	name := os.Getenv(traceVariable)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		r.fatalf("open trace: %v", err)
	}
	defer f.Close()
	body := string(a.body)
	var message struct{ Message string }
	if a.status >= 300 && json.Unmarshal(a.body, &message) == nil && message.Message != "" {
		body = message.Message
	}
	_, _ = f.WriteString(r.at + "\n  " + c.method + " " + strings.SplitN(c.path, "?", 2)[0] + "\n  " + strings.Join(a.header.Values("Warning"), "\n  ") +
		"\n  " + body[:min(len(body), 1500)] + "\n")
}
