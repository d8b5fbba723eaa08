// Package render turns measurements into reports: tables for a terminal or in Markdown, plots
// as SVG, JSON, percentiles, and numbers with three digits.
//
// A report of a subcommand is a struct with JSON tags. WriteReport prints it as JSON, or as the
// text that the caller makes with Document. ReadReport reads a report that "-o json" has
// printed. The package knows nothing of the measurements, and writes no files.
package render
