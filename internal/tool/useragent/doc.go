// Package useragent guesses from a program's name which encoding the program requests, and
// whether the name says what its owner runs. Audit logs record neither. The guesses come from
// fixed lists of well-known programs, by name. A user may override encodings.
//
// The package does not take a user agent apart: callers pass the name alone, without version.
package useragent
