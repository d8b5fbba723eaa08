// Package agentprofile reads profiles of agents: which requests a program sends to an API
// server, and how. Profiles are YAML files. Some are part of the binary. Users add files of their
// own, or replace a profile by a file of the same name. docs/guides/hollow.md explains all fields.
//
// The package opens no connections: internal/lab/hollow sends the requests, and
// internal/tool/model computes their cost.
package agentprofile
