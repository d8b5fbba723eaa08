// Package lint has the house rules of this module, as tests. They concern sizes, the
// direction of imports, package comments, names, sentences, paragraphs, formatting,
// and bans. `make lint` runs them. They need the Go toolchain's parser and nothing
// else.
//
//	files --Load--> Tree --Rule.Find--> Findings --exceptions--> test failures
//
// A rule is a function from a Tree to Findings, so it can be tested on a small tree
// made up for it. The tables in tables.go say what the rules allow: limits, the order
// of the packages, and the exceptions, each with its reason. To add a rule, write its
// function and a test with findings, and add it to Rules and to the table.
//
// The package checks form and not behaviour. No other package imports it.
package lint
