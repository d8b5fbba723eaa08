package testbed

import "syscall"

// sysProcAttr puts a child into a process group of its own. The kernel kills the
// child when the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
