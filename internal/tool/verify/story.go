package verify

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// Step is one line of a story: an operation, or a frame of a watch.
type Step struct {
	// Called and Returned are seconds since the run began. Of a frame both are when it came.
	Called   float64 `json:"called"`
	Returned float64 `json:"returned"`
	// Client and Server are empty for a frame, which belongs to the watch before it.
	Client string `json:"client,omitempty"`
	Server string `json:"server,omitempty"`
	// Request is what was asked for, and Answer what was told.
	Request string `json:"request,omitempty"`
	Answer  string `json:"answer"`
	// Should says what the answer should have been. It is empty where the answer is right.
	Should string `json:"should,omitempty"`
}

// instead is the step with what its answer should have been.
func (s Step) instead(format string, args ...any) Step {
	s.Should = fmt.Sprintf(format, args...)
	return s
}

func (s *Step) write(to io.Writer) {
	if s.Client == "" {
		fmt.Fprintf(to, "        %9.3fs  %s\n", s.Called, strings.TrimRight(s.Answer, " "))
	} else {
		fmt.Fprintf(to, "    %9.3fs to %9.3fs  %-10s %s: %s → %s\n", s.Called, s.Returned, s.Client, s.Server, s.Request, s.Answer)
	}
	if s.Should != "" {
		fmt.Fprintf(to, "    ✗ right would be: %s\n", s.Should)
	}
}

// story are the steps of operations, in the order in which they were sent. An operation that
// is named twice comes once.
func (r *run) story(steps ...Step) []Step {
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Called, b.Called) })
	return slices.CompactFunc(steps, func(a, b Step) bool { return a == b })
}

func (r *run) step(o *Operation, request, answer string) Step {
	return Step{
		Called: o.Called.Seconds(), Returned: o.Returned.Seconds(), Client: o.Client, Server: strings.TrimPrefix(r.servers[o.Server].base, "https://"),
		Request: request, Answer: answer,
	}
}

// teller is something that tells what a version of an object is.
type teller interface{ step(r *run) Step }

func (w *Write) step(r *run) Step {
	answer := fmt.Sprintf("status %d", w.Status)
	switch {
	case w.done() && w.Revision > 0:
		answer += fmt.Sprintf(", revision %d", w.Revision)
	case w.Err != "":
		answer += ", " + w.Err
	}
	request := fmt.Sprintf("%s %s", w.Verb, w.Key)
	if w.Value != "" {
		request += "=" + w.Value
	}
	if w.Expected != "" {
		request += " if at " + w.Expected
	}
	return r.step(&w.Operation, request, answer)
}

func (read *Read) step(r *run) Step {
	answer := fmt.Sprintf("status %d", read.Status)
	switch {
	case read.Err != "":
		answer += ", " + read.Err
	case read.Verb == "list":
		answer += fmt.Sprintf(", revision %d, %d objects", read.Revision, len(read.Objects))
	case read.ok() && len(read.Objects) == 1:
		answer += fmt.Sprintf(", %s of revision %d", read.Objects[0].Value, read.Objects[0].Revision)
	}
	return r.step(&read.Operation, read.text(), answer)
}

// step tells how a watch was asked for and answered.
func (w *watchRecord) step(r *run) Step {
	answer := fmt.Sprintf("status %d, %d frames", w.Status, len(w.watch.Frames))
	if w.Err != "" {
		answer += ", " + w.Err
	}
	return r.step(&w.Operation, w.text(), answer)
}

// text is the request as a person writes it.
func (req *Request) text() string {
	query, _ := url.QueryUnescape(req.query().Encode())
	what := req.Verb + " " + req.Resource
	if req.Verb == "get" {
		what += "/" + req.Name
	}
	if req.Initial {
		query = strings.TrimPrefix(query+"&sendInitialEvents=true", "&")
	}
	if query != "" {
		what += "?" + query
	}
	if req.Form == formMetadata || req.Form == formTable {
		what += " as " + string(req.Form)
	}
	return what
}

// maxFrames is how many frames before and behind the one at fault a story has.
const maxFrames = 3

// tellFrames tells how a watch was asked for, and its frames around one: all that a story needs
// of them. should belongs to that frame.
func (r *run) tellFrames(w *watchRecord, at int, should string) []Step {
	steps := []Step{w.step(r)}
	if at < 0 {
		at = len(w.watch.Frames) - 1
		steps[0].Should, should = should, ""
	}
	first, last := max(0, at-maxFrames), min(len(w.watch.Frames)-1, at+maxFrames)
	for i := first; i <= last; i++ {
		f := &w.watch.Frames[i]
		came := f.Received.Sub(r.start).Seconds()
		step := Step{Called: came, Returned: came, Answer: strings.TrimRight(strings.Replace(f.String(), r.fixture.namespace+"/", "", 1)+" "+f.Labels[valueLabel], " ")}
		switch {
		case i == at:
			step.Should = should
		case i == first && first > 0:
			step.Answer = fmt.Sprintf("… %d frames, then %s", first, step.Answer)
		case i == last && last < len(w.watch.Frames)-1:
			step.Answer += fmt.Sprintf(", and %d frames …", len(w.watch.Frames)-1-last)
		}
		steps = append(steps, step)
	}
	return steps
}

// of are the steps of the writes that made versions of an object, as far as they are known.
func (t *truth) of(r *run, versions ...version) (steps []Step) {
	for _, v := range versions {
		if w := t.maker(v); w != nil {
			steps = append(steps, w.step(r))
		}
	}
	return steps
}

// maker is the write that made a version, or the deletion that ended the object at its
// revision. It is nil if that is not known.
func (t *truth) maker(v version) *Write {
	if w := t.writes[v]; w != nil {
		return w
	}
	for w, revision := range t.deletions {
		if revision == v.revision && w.Key.Key == v.key {
			return w
		}
	}
	return nil
}

func (t *truth) describe(key watchcheck.Key, state *watchcheck.State) string {
	if state == nil {
		return "no " + key.Name
	}
	return fmt.Sprintf("%s of revision %d", cmp.Or(t.values[version{key, state.Revision}].value, key.Name), state.Revision)
}
