//go:build mutations

package mutation

import (
	"fmt"
	"os"
	"sync/atomic"
)

// Variable is the environment variable that names the mutation of this process.
const Variable = "MILLRACE_MUTATION"

// chosen is a variable of the package, and no field: it is read in every layer, and only
// in this build.
var chosen = choose(os.Getenv(Variable))

var counter atomic.Uint64

// calls counts its calls.
func calls() uint64 { return counter.Add(1) }

// choose ends the process if there is no such mutation: a server that is not broken must
// not pass for one that is.
func choose(name string) Mutation {
	if name == "" {
		return none
	}
	for _, row := range Table() {
		if row.Name == name {
			fmt.Fprintf(os.Stderr, "this server is broken on purpose: %s: %s\n", name, row.Breaks)
			return row.Mutation
		}
	}
	fmt.Fprintf(os.Stderr, "%s=%s: there is no such mutation\n", Variable, name)
	os.Exit(2)
	return none
}
