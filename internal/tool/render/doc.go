// Package render turns measurements into what a user reads: tables for a terminal
// or in Markdown, bars as SVG, JSON, percentiles, and numbers with three digits.
//
// A report of a subcommand is a struct with JSON tags. WriteReport prints it as
// JSON or as the text that the caller makes with Document, and ReadReport reads what
// "-o json" has printed. The package knows nothing of what was measured.
package render
