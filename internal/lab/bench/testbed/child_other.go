//go:build unix && !linux

package testbed

import "syscall"

// sysProcAttr puts a child into a process group of its own.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
