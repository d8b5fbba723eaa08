package render

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Formats that --output selects.
const (
	Terminal = "table" // the default: aligned columns
	Wide     = "wide"  // Terminal with more columns
	JSON     = "json"
	Markdown = "markdown"
	SVG      = "svg"
)

// Formats returns the values of --output for a report that has a plot.
func Formats() []string { return []string{Terminal, Wide, JSON, Markdown, SVG} }

// ReadReport decodes a file that "-o json" has printed into report, which is a pointer.
func ReadReport(file string, report any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	if err := json.Unmarshal(content, report); err != nil {
		return fmt.Errorf("read report %s (it must be what -o json wrote): %w", file, err)
	}
	return nil
}

// WriteWithPlot is WriteReport for a report that also has a plot, for the format SVG.
func WriteWithPlot(out io.Writer, format string, report any, text func(format string) string, plot func() Plot) error {
	if format == SVG {
		text = func(string) string { return plot().SVG() }
	}
	return WriteReport(out, format, report, text)
}

// WriteReport writes a report as indented JSON, or in another format the result of text. text
// may be nil if the format is JSON.
func WriteReport(out io.Writer, format string, report any, text func(format string) string) error {
	if format == JSON {
		return writeIndented(out, report)
	}
	if _, err := io.WriteString(out, text(format)); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writeIndented writes a report as indented JSON.
func writeIndented(out io.Writer, report any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(report); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
