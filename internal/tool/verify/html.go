package verify

import (
	_ "embed"
	"fmt"

	"github.com/millrace/millrace/internal/tool/display"
)

//go:embed page.html
var pageTemplate string

// htmlPage is the data of the page's template. The template escapes all text.
type htmlPage struct {
	*Report
	Found         int // violations of all promises
	Kept, Checked int // promises
	Provenance    string
	Command       string
	Stories       []htmlViolation // up to maxViolations of each promise
	More          int             // violations that the page leaves out
}

type htmlViolation struct {
	*Violation
	Steps []htmlStep
}

// htmlStep is a step with its bar. X and Width are in thousandths of the time of the story.
type htmlStep struct {
	*Step
	When     string
	X, Width float64
}

// WritePage writes the report as one HTML page to a file.
func (r *Report) WritePage(name string) error {
	return display.WritePage(name, pageTemplate, nil, r.page())
}

// page returns the data of the page's template.
func (r *Report) page() *htmlPage {
	p := &htmlPage{Report: r, Found: r.Violations(), Provenance: r.provenance(), Command: r.commandLine()}
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Checked > 0 {
			p.Checked++
			if len(c.Violations) == 0 {
				p.Kept++
			}
		}
		shown := min(maxViolations, len(c.Violations))
		p.More += len(c.Violations) - shown
		for n := range shown {
			v := &c.Violations[n]
			p.Stories = append(p.Stories, htmlViolation{v, v.steps()})
		}
	}
	return p
}

// minBar is the least width of a bar that can still be seen, in thousandths.
const minBar = 8

// steps returns the steps of the story with their bars.
func (v *Violation) steps() (steps []htmlStep) {
	if len(v.Story) == 0 {
		return nil
	}
	first, last := v.Story[0].Called, v.Story[0].Returned
	for i := range v.Story {
		first, last = min(first, v.Story[i].Called), max(last, v.Story[i].Returned)
	}
	scale := 1000 / max(last-first, 1e-3)
	for i := range v.Story {
		s := &v.Story[i]
		when := fmt.Sprintf("%.3f", s.Called)
		if s.Client != "" {
			when += fmt.Sprintf("–%.3f", s.Returned)
		}
		width := max(minBar, scale*(s.Returned-s.Called))
		steps = append(steps, htmlStep{s, when + " s", min(scale*(s.Called-first), 1000-width), width})
	}
	return steps
}
