// Millrace is a Kubernetes API server for very large clusters, and the tools to
// load and measure it, in one binary.
package main

import (
	"fmt"
	"os"

	_ "time/tzdata" // cron schedules name time zones

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := newCommand(version).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		os.Exit(1)
	}
}
