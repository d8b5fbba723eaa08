package harness

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitStopped waits until all threads of a child that got SIGSTOP have stopped, or the
// child has ended. It does not reap the child, so other waits see the same (waitid(2)).
func waitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return nil
		default:
			return err
		}
	}
}
