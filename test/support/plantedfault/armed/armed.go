// Package armed decides when the code of a planted fault breaks its server. A server reads from
// itself while it starts, so the fault has no effect until the server gets Signal.
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

// The state belongs to the package, because faults in every layer read it.
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

// Calls returns the number of its calls since the fault was armed, and 0 before.
func Calls() uint64 {
	if !Active() {
		return 0
	}
	return calls.Add(1)
}

// period is 7, which is no factor of the usual numbers of events that arrive together.
const period = 7

// EverySeventhCall reports true at every seventh call while the fault is armed.
func EverySeventhCall() bool {
	n := Calls()
	return n > 0 && n%period == 0
}
