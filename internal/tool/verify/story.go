package verify

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Step is one line of a story: an operation, or a frame of a watch.
type Step struct {
	// Called and Returned are seconds since the start of the run. For a frame, both are when it
	// arrived.
	Called   float64 `json:"called"`
	Returned float64 `json:"returned"`
	// Client and Server are empty for a frame, which belongs to the watch before it.
	Client string `json:"client,omitempty"`
	Server string `json:"server,omitempty"`
	// Request is empty for a frame. Answer is the status and a summary, or the frame.
	Request string `json:"request,omitempty"`
	Answer  string `json:"answer"`
	// Want says what the answer should have been. It is empty where the answer is right.
	Want string `json:"should,omitempty"`
}

// withWant returns the step with a text for Want.
func (s Step) withWant(format string, args ...any) Step {
	s.Want = fmt.Sprintf(format, args...)
	return s
}

// write writes the step for a person. Errors of writing are ignored.
func (s *Step) write(to io.Writer) {
	if s.Client == "" {
		fmt.Fprintf(to, "        %9.3fs  %s\n", s.Called, strings.TrimRight(s.Answer, " "))
	} else {
		fmt.Fprintf(to, "    %9.3fs to %9.3fs  %-10s %s: %s → %s\n", s.Called, s.Returned, s.Client, s.Server, s.Request, s.Answer)
	}
	if s.Want != "" {
		fmt.Fprintf(to, "    ✗ right would be: %s\n", s.Want)
	}
}

// newStory returns steps in the order in which they were sent, each once. It sorts in place.
func newStory(steps ...Step) []Step {
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Called, b.Called) })
	return slices.CompactFunc(steps, func(a, b Step) bool { return a == b })
}

// newStep returns the step of an operation, without a text for Want.
func (r *run) newStep(o *Operation, request, answer string) Step {
	return Step{
		Called: o.Called.Seconds(), Returned: o.Returned.Seconds(),
		Client: o.Client, Server: strings.TrimPrefix(r.servers[o.Server].base, "https://"),
		Request: request, Answer: answer,
	}
}

// recordedRequest is a request of the record: a *Write, a *Read or a *watchRecord.
type recordedRequest interface{ step(r *run) Step }

// step returns the step of a write.
func (w *Write) step(r *run) Step {
	answer := fmt.Sprintf("status %d", w.Status)
	switch {
	case w.isAcknowledged() && w.Revision > 0:
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
	return r.newStep(&w.Operation, request, answer)
}

// step returns the step of a read. All pages of a list are one step.
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
	return r.newStep(&read.Operation, read.text(), answer)
}

// step returns the step of a watch, without its frames.
func (w *watchRecord) step(r *run) Step {
	answer := fmt.Sprintf("status %d, %d frames", w.Status, len(w.watch.Frames))
	if w.Err != "" {
		answer += ", " + w.Err
	}
	return r.newStep(&w.Operation, w.text(), answer)
}

// Indexes of frames for watchSteps.
const (
	firstFrame = 0
	noFrame    = -1 // no frame is at fault: watchcheck.Fault.Frame has the same value
)

// maxFrames is the number of frames before and after the frame at fault that a story has.
const maxFrames = 3

// watchSteps returns the step of a watch and the steps of the frames around one, which is given
// by its index. want belongs to that frame. With noFrame the last frames follow, and want
// belongs to the watch.
func (r *run) watchSteps(w *watchRecord, at int, want string) []Step {
	steps := []Step{w.step(r)}
	end := len(w.watch.Frames) - 1
	if at == noFrame {
		steps[0].Want = want
		want = ""
		at = end
	}
	first := max(0, at-maxFrames)
	last := min(end, at+maxFrames)
	for i := first; i <= last; i++ {
		f := &w.watch.Frames[i]
		arrived := f.Received.Sub(r.start).Seconds()
		text := strings.Replace(f.String(), r.fixture.namespace+"/", "", 1) + " " + f.Labels[valueLabel]
		step := Step{Called: arrived, Returned: arrived, Answer: strings.TrimRight(text, " ")}
		switch {
		case i == at:
			step.Want = want
		case i == first && first > 0:
			step.Answer = fmt.Sprintf("… %d frames, then %s", first, step.Answer)
		case i == last && last < end:
			step.Answer += fmt.Sprintf(", and %d frames …", end-last)
		}
		steps = append(steps, step)
	}
	return steps
}
