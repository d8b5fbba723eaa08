package auditlog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/tool/display"
)

// Counts says what was read from an input. Rest counts what was not passed on
// as an event.
type Counts struct {
	// Bytes is the size of the text, uncompressed.
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
	// Events is the number of events that were passed to the caller.
	Events uint64 `json:"events"`
	// Wrapped counts the wrapped events by the path of their wrappers, as in
	// "records[].properties.log". textBefore stands for text before an event on its line.
	Wrapped map[string]uint64 `json:"wrapped,omitempty"`
	// Rest counts the records that are not events, and lost events, by reason.
	Rest []Rest `json:"rest,omitempty"`
}

// Rest counts records of an input that are not events, or are lost, for one reason.
type Rest struct {
	Why string `json:"why"`
	// Lost says that the records are events or parts of events, which could not be read.
	Lost    bool  `json:"lost,omitempty"`
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
	// FirstLine is the number of the line on which the first record starts. Begins has the first
	// characters of that record.
	FirstLine int64  `json:"firstLine"`
	Begins    string `json:"begins,omitempty"`
}

// Reasons of Rest. The reasons of lost events come first.
const (
	whyCutOff      = "cut off or no JSON"
	whyTooLong     = "longer than 16 MiB"
	whyNoTime      = "events without a time"
	whyPart        = "parts of events"
	whyListCutOff  = "list that does not end"
	whyInsideOf    = "wrapped events that are cut off or no JSON"
	whyPacked      = "compressed data that is cut off or broken"
	whyOtherObject = "JSON of another kind"
	whyText        = "text"
)

var lostReasons = []string{whyCutOff, whyTooLong, whyNoTime, whyPart, whyListCutOff, whyInsideOf, whyPacked}

// add counts a record that is not an event, or is lost.
func (c *Counts) add(why string, bytes, line int64, begins []byte) {
	i := slices.IndexFunc(c.Rest, func(r Rest) bool { return r.Why == why })
	if i < 0 {
		i = len(c.Rest)
		c.Rest = append(c.Rest, Rest{Why: why, Lost: slices.Contains(lostReasons, why), FirstLine: line, Begins: firstCharacters(begins)})
	}
	c.Rest[i].Records++
	c.Rest[i].Bytes += bytes
}

const maxBegins = 60

// firstCharacters returns the first characters of b, escaped for a terminal.
func firstCharacters(b []byte) string {
	return display.Clean(strings.ToValidUTF8(string(b[:min(len(b), maxBegins)]), ""))
}

// LostRecords returns the number of records that are events or parts of events, which could not be
// read.
func (c *Counts) LostRecords() (n int64) {
	for _, r := range c.Rest {
		if r.Lost {
			n += r.Records
		}
	}
	return n
}

// maxInputNotes bounds the notes on lost records, and also the notes on records that are not events.
const maxInputNotes = 10

// Notes returns sentences on the records of inputs that are not events, and on the wrappers of
// events. Lost records come first. counts has the counts of each input. The number of sentences is
// bounded, whatever the number of inputs is.
func Notes(inputs []Input, counts []Counts) []string {
	var lost, others []string
	wrapped := map[string]uint64{}
	for i := range counts {
		name := display.Clean(inputs[i].Name)
		for _, r := range counts[i].Rest {
			if r.Lost {
				lost = append(lost, fmt.Sprintf("%s: lost: %s", name, r.sentence()))
			} else {
				others = append(others, fmt.Sprintf("%s: no events, and left out: %s", name, r.sentence()))
			}
		}
		for path, n := range counts[i].Wrapped {
			wrapped[path] += n
		}
	}
	notes := append(firstNotes(lost, "lost records"), firstNotes(others, "records that are no events")...)
	for _, path := range slices.Sorted(maps.Keys(wrapped)) {
		note := fmt.Sprintf("%s found in %s.", display.Plural(int(wrapped[path]), "event"), path)
		if path == textBefore {
			note = fmt.Sprintf("%s found after other text on the same line.", display.Plural(int(wrapped[path]), "event"))
		}
		if strings.HasSuffix(path, googlePayload) {
			note += " Google's entries have neither the parameters of requests (versions, limits, selectors) nor their durations: " +
				"reads are counted as if they had no parameters."
		}
		notes = append(notes, note)
	}
	return notes
}

// firstNotes returns the first maxInputNotes notes, and a note on the number of further notes. what is
// the subject of the notes.
func firstNotes(notes []string, what string) []string {
	if more := len(notes) - maxInputNotes; more > 0 {
		return append(notes[:maxInputNotes:maxInputNotes], fmt.Sprintf("%s on %s of other inputs.", display.Plural(more, "more note"), what))
	}
	return notes
}

func (r *Rest) sentence() string {
	text := fmt.Sprintf("%s of %s: %s (the first is line %d).", display.Plural(int(r.Records), "record"), display.Size(r.Bytes),
		r.Why, r.FirstLine)
	if r.Why == whyPacked {
		text = fmt.Sprintf("%s: all from line %d on is missing. Copy the file again.", r.Why, r.FirstLine)
	}
	return text
}

// NoEventsError returns the error for inputs without an event of use. The error says why, and
// what to do. otherStages is the number of events of stages that are of no use.
func NoEventsError(inputs []Input, counts []Counts, otherStages uint64) error {
	var names []string
	for _, in := range inputs {
		if in.Name == Stdin {
			in.Name = "the standard input"
		}
		names = append(names, display.Clean(in.Name))
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
	}
	where := strings.Join(names, ", ")
	var bytes int64
	for i := range counts {
		bytes += counts[i].Bytes
	}
	switch {
	case otherStages > 0:
		return fmt.Errorf("no request in %s has an end: %s of other stages. Let the policy log the stage ResponseComplete",
			where, display.Plural(int(otherStages), "event"))
	case bytes == 0:
		return fmt.Errorf("no audit events in %s: it is empty", where)
	}
	worst := &Rest{}
	for i := range counts {
		for j := range counts[i].Rest {
			if r := &counts[i].Rest[j]; worst.Records == 0 || r.Lost && !worst.Lost {
				worst = r
			}
		}
	}
	text := fmt.Sprintf("no audit events in %s: %s", where, worst.sentence())
	if worst.Begins != "" {
		text += fmt.Sprintf(" It begins with %q.", worst.Begins)
	}
	return fmt.Errorf("%s Give events of audit.k8s.io, as kube-apiserver writes them to --audit-log-path or a cloud's log "+
		"service exports them", text)
}

// ForgetText removes the starts of records, which may contain names.
func (c *Counts) ForgetText() {
	for i := range c.Rest {
		c.Rest[i].Begins = ""
	}
}

// LostError says that events of a log could not be read.
type LostError struct{ records int64 }

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("the log is read in part: %s could not be read, as noted", display.Plural(int(e.records), "record"))
}

// ExitCode returns the exit code of a command that ends with this error.
func (e *LostError) ExitCode() int { return 3 }

// CheckLost returns a LostError if records, the number of lost records, is not 0.
func CheckLost(records int64) error {
	if records == 0 {
		return nil
	}
	return &LostError{records}
}
