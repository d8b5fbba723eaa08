// Millrace-tools is the set of tools for any Kubernetes API server: analyze, replay, verify, top, model.
package main

import (
	"os"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/cli/tools"
)

// version is replaced by the linker (see Makefile).
var version = "dev"

func main() { os.Exit(cli.Run(tools.NewCommand(version), os.Args[1:])) }
