package cli

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// relaxedVariable is set while the program begins anew in its own place, so that it does
// so once even where the kernel forgets what it was told.
const relaxedVariable = "MILLRACE_TIMERS_RELAXED"

// relaxTimers lets the kernel wake the threads of this process up to slack late for a
// timer, where it would be 50 µs late (PR_SET_TIMERSLACK, prctl(2)). Threads have it from
// those that begin them, and Go's first ones run before any code of ours; so the program
// is executed anew, in the same process, and relaxTimers returns in that one only. Where
// that can't be done the program goes on as it is.
func relaxTimers(slack time.Duration) {
	again := os.Getenv(relaxedVariable) != ""
	_ = os.Unsetenv(relaxedVariable) // it has a name
	if slack <= 0 || again {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || time.Duration(now) == slack {
		return
	}
	path, err := os.Executable()
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0, 0, 0)
	}
	if err == nil {
		err = unix.Exec(path, os.Args, append(os.Environ(), relaxedVariable+"=1"))
	}
	klog.InfoS("Timers keep the kernel's slack, which costs CPU: start with --timer-slack=0 to leave this out", "err", err)
}
