package server

import (
	"log/slog"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// relaxedVariable is an environment variable that is set for the restart. It keeps a
// program from restarting itself for ever where the kernel ignores the slack.
const relaxedVariable = "MILLRACE_TIMERS_RELAXED"

// relaxTimers lets the kernel wake the threads of this process up to slack late for a
// timer, instead of 50 µs late (PR_SET_TIMERSLACK, prctl(2)).
//
// A thread inherits its slack from the thread that starts it, and Go's first threads
// start before any code of ours. So the program restarts itself once (exec, in the same
// process), and relaxTimers returns when it is called again. Without a restart it returns if
// slack is 0, if the kernel has that slack already, or after a failure.
func relaxTimers(slack time.Duration, logger *slog.Logger) {
	relaxed := os.Getenv(relaxedVariable) != ""
	_ = os.Unsetenv(relaxedVariable) // it fails only for an invalid name
	if slack <= 0 || relaxed {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if current, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || time.Duration(current) == slack {
		return
	}
	path, err := os.Executable()
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0, 0, 0)
	}
	if err == nil {
		err = unix.Exec(path, os.Args, append(os.Environ(), relaxedVariable+"=1"))
	}
	logger.Info("Timers keep the kernel's slack, which costs CPU: start with --timer-slack=0 to leave this out", "err", err)
}
