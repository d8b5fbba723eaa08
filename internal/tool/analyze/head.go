package analyze

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/display"
)

// head returns the first lines of the report: its sums, what to know about them, and what to repair
// first.
func (r *Report) head() []string {
	t := &r.Total
	lines := []string{
		fmt.Sprintf("%s requests in %s, from %s, %s with errors.",
			display.Count(t.Requests), display.Seconds(r.Seconds), r.From.Format("2006-01-02 15:04:05 UTC"), display.Count(t.Errors)),
		fmt.Sprintf("Reads cost the API server an estimated %s of CPU (%s): %s objects (%s) looked at, %s (%s) sent.",
			display.Seconds(t.CPU), formatCores(t.CPU/r.Seconds), display.Count(t.Scanned), display.Size(t.ScannedBytes),
			display.Count(t.Objects), display.Size(t.Bytes)),
	}
	if text := r.SavedText(); text != "" {
		lines = append(lines, text+fmt.Sprintf(" A replica in front would need %s for all reads.", display.Seconds(t.TierCPU)))
	}
	lines = append(lines, r.headNotes()...)
	if first := r.RepairFirst(); first != "" {
		lines = append(lines, first)
	}
	return lines
}

// SavedText returns a sentence on what all findings would save, or "" if they save nothing.
func (r *Report) SavedText() string {
	if r.Total.CPU <= 0 || r.savedCPU() <= 0 {
		return ""
	}
	return fmt.Sprintf("The findings would save %s of the CPU.", formatPercent(r.savedCPU()*r.Seconds/r.Total.CPU))
}

// shortLogSeconds is the period below which a log is too short for findings.
const shortLogSeconds = 45 * 60

// headNotes returns sentences on what the log lacks, and on the version of the server. It returns
// nil for accounts of a server.
func (r *Report) headNotes() (notes []string) {
	if r.Run.Read.Inputs == 0 {
		return nil
	}
	notes = append(notes, r.Run.versionNote())
	if lost := r.Run.Read.LostRecords; lost > 0 {
		notes = append(notes, fmt.Sprintf("A part of the log is lost, and not in the figures: %s could not be read, as the last notes say.",
			display.Plural(int(lost), "record")))
	}
	if r.Seconds < shortLogSeconds {
		notes = append(notes, fmt.Sprintf("The log is of %s only, and findings need repetitions: polling %d LISTs of an "+
			"instance, relist-loop %d, "+
			"no-bookmarks and short-watches %d watches, revision-unset %d LISTs. Slower repetitions are not found: give an hour or more.",
			display.Seconds(r.Seconds), polledLists, relists, unmarkedWatches, unsetRequests))
	}
	return notes
}

// RepairFirst returns a sentence on the repair that saves most, or "" without findings.
func (r *Report) RepairFirst() string {
	if len(r.Findings) == 0 {
		return ""
	}
	f := &r.Findings[0]
	text := fmt.Sprintf("Repair first: %s: %s (finding 1", display.Clean(f.Name()), f.Repair)
	if r.Total.CPU > 0 && f.SavedCPU > 0 {
		text += fmt.Sprintf(", %s of the CPU of all reads", formatPercent(f.SavedCPU/r.Total.CPU))
	}
	return text + ")."
}

// savingText returns a text on what the repair of a finding saves, or "" if the saving is unknown.
// i is the index of the finding. The text names an earlier finding whose saving is in part the
// same.
func (r *Report) savingText(i int) string {
	f := &r.Findings[i]
	if f.Kind == kindAdvice {
		return ""
	}
	text := fmt.Sprintf("%s of CPU (%s", display.Seconds(f.SavedCPU), formatCores(f.SavedCPU/r.Seconds))
	if r.Total.CPU > 0 {
		text += fmt.Sprintf(", %s of all reads", formatPercent(f.SavedCPU/r.Total.CPU))
	}
	if text += ")"; f.SavedBytes >= 1 {
		text += ", " + display.Size(f.SavedBytes)
	}
	for j := range r.Findings[:i] {
		if g := &r.Findings[j]; g.Client == f.Client && g.Resource == f.Resource {
			return text + fmt.Sprintf("; finding %d is on the same client and resource: their savings do not add up", j+1)
		}
	}
	return text
}

// formatCores formats a mean number of processors.
func formatCores(n float64) string {
	switch {
	case n < 1e-5:
		return "under 0.01 millicores"
	case n < 0.095:
		return fmt.Sprintf("%.2g millicores", 1000*n)
	}
	return fmt.Sprintf("%.2f processors", n)
}

// formatPercent formats a fraction as a percentage.
func formatPercent(x float64) string {
	if x < 0.095 {
		return fmt.Sprintf("%.2g%%", 100*x)
	}
	return display.Percent(x)
}
