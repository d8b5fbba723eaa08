// Package armed tells the code of a planted fault when to break its server. A server reads from
// itself while it starts, so it is whole until it gets Signal.
//
// Only an overlay of package plantedfault imports the package into a server.
package armed

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Signal arms the fault.
const Signal = syscall.SIGUSR1

// These are variables of the package, since faults of every layer ask.
var (
	armed atomic.Bool
	calls atomic.Uint64
)

func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, Signal)
	go func() {
		<-signals
		armed.Store(true)
		fmt.Fprintln(os.Stderr, "this server breaks itself from now on")
	}()
}

// Active reports whether the fault is armed.
func Active() bool { return armed.Load() }

// Calls counts its calls while the fault is armed. Before, it returns 0.
func Calls() uint64 {
	if !Active() {
		return 0
	}
	return calls.Add(1)
}

// period has no factor in common with the numbers of events that come together.
const period = 7

// EverySeventhCall is On for one call of seven.
func EverySeventhCall() bool {
	n := Calls()
	return n > 0 && n%period == 0
}
