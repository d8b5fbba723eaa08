//go:build mutations

package mutation

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Variable is the environment variable that names the mutation of this process, and Arm the
// signal that begins it. A server has to start first, for which it reads from itself.
const (
	Variable = "MILLRACE_MUTATION"
	Arm      = syscall.SIGUSR1
)

// These are variables of the package, and no fields: they are read in every layer, and only
// in this build.
var (
	chosen  = choose(os.Getenv(Variable))
	armed   atomic.Bool
	counter atomic.Uint64
)

func init() {
	if chosen == none {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, Arm)
	go func() {
		<-signals
		armed.Store(true)
		fmt.Fprintln(os.Stderr, "this server breaks itself from now on")
	}()
}

func isArmed() bool { return armed.Load() }

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
