// Millrace-lab loads Kubernetes API servers and measures them: fill, hollow, bench, papers.
package main

import (
	"os"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/cli/lab"
)

// version is replaced by the linker (see Makefile).
var version = "dev"

func main() { os.Exit(cli.Run(lab.NewCommand(version), os.Args[1:])) }
