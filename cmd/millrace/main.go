// Millrace is a Kubernetes API server for very large clusters, a read tier for API servers that
// exist, and Kubernetes' own components, in one program.
package main

import (
	"os"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/cli/server"
)

// version is replaced by the linker (see Makefile).
var version = "dev"

func main() { os.Exit(cli.Run(server.NewCommand(version), server.Arguments(os.Args))) }
