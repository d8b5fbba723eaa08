// Package lint holds the house rules of this module as tests: sizes, import
// direction, doc comments, formatting and bans. `make lint` runs them; they
// need the Go toolchain's parser and nothing else.
//
// A rule is a function from a Tree to Findings, so that it can be tested on a
// small tree made up for it. The tables in tables.go say what the rules allow:
// the order of the packages and the exceptions, each with its reason.
//
// The package checks form, not behaviour, and is imported by nothing.
package lint
