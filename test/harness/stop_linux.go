package harness

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitStopped returns when all threads of a child that was sent SIGSTOP have stopped, or it
// has ended. What it learns is left for others who wait for the child (waitid(2)).
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
