package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// outputs are the forms of a report.
var outputs = []string{"table", "wide", "json", "markdown", "svg"}

// readReport reads what -o json wrote.
func readReport(file string, report any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	if err := json.Unmarshal(content, report); err != nil {
		return fmt.Errorf("read report %s (it must be what -o json wrote): %w", file, err)
	}
	return nil
}

// writePlotted prints a report that has a plot too.
func writePlotted(out io.Writer, format string, report any, text func(format string) string, plot func() plot) error {
	if format == "svg" {
		text = func(string) string { return plot().svg() }
	}
	return writeReport(out, format, report, text)
}

// writeReport prints a report as JSON, or in another form as its text.
func writeReport(out io.Writer, format string, report any, text func(format string) string) error {
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
