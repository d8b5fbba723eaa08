package testbed

import "syscall"

// childAttributes puts a child in its own process group and has the kernel
// kill it when the thread that started it dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
