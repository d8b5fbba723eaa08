// Package agentprofile reads descriptions of agents: which requests a program sends to an API
// server, and how. They are YAML files. Some are part of the binary, and users add their
// own, or replace one of the same name. docs/guides/hollow.md explains all fields.
//
// The package knows nothing of connections: internal/lab/hollow sends the requests.
package agentprofile
