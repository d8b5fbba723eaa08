// Package useragent guesses what a program is from the name in its user agent: the encoding
// that it requests, and whether the name says what its owner runs. Audit logs record neither.
// The guesses are fixed lists of well-known programs, which a user may override.
//
// The package does not take a user agent apart: callers pass the name alone, without version.
package useragent
