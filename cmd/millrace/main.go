// Millrace is a Kubernetes API server for very large clusters, and the tools to
// load and measure it, in one binary.
package main

import (
	"os"

	"github.com/millrace/millrace/internal/cli"
)

// version is replaced by the linker (see Makefile).
var version = "dev"

func main() { os.Exit(cli.Main(version)) }
