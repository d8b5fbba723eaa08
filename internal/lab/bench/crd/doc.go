// Package crd is the command "bench crd": it measures what custom resource
// definitions cost a server, from installing them to deleting them.
//
// A Fixture is a server over empty data. It fills definitions in, waits until the server
// lists and answers them, and starts the server again. Package discovery measures other
// things on such a server, and uses Fixture, Options and EachPath.
//
// The definitions are those of package fill, with a fixed seed: two runs with the
// same flags have the same data.
package crd
