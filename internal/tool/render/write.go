package render

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Formats are the values of --output for a report that has a plot.
func Formats() []string { return []string{"table", "wide", "json", "markdown", "svg"} }

// ReadReport decodes a file that "-o json" has printed into report.
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

// WriteWithPlot is WriteReport for a report that also has a plot, for the format "svg".
func WriteWithPlot(out io.Writer, format string, report any, text func(format string) string, plot func() Plot) error {
	if format == "svg" {
		text = func(string) string { return plot().SVG() }
	}
	return WriteReport(out, format, report, text)
}

// WriteReport prints a report: as JSON, or in another format the text that text returns
// for it.
func WriteReport(out io.Writer, format string, report any, text func(format string) string) error {
	if format == "json" {
		return writeIndented(out, report)
	}
	if _, err := io.WriteString(out, text(format)); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func writeIndented(out io.Writer, report any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(report); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
