// Package kubeconfig finds the API server that a command is to talk to, and the user to be
// there. A command has Flags, adds them to its own flags, and calls Load. Every error is one
// line that says what to give instead.
//
// The package is not for the kubeconfigs that a server makes, which datadir writes.
package kubeconfig
