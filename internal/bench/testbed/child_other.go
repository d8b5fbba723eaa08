//go:build unix && !linux

package testbed

import "syscall"

// childAttributes puts a child in its own process group.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
