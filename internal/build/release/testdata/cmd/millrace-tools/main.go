// Command stub stands for a program in tests of releases: it prints its version. The module
// that it links has no other use.
package main

import (
	"os"

	_ "golang.org/x/sync/errgroup"
)

var version = "dev"

func main() { _, _ = os.Stdout.WriteString(version + "\n") }
