package kubeconfig

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// temporaryFile writes a file in memory. Without memory files or /proc, it writes one in a new
// directory.
func temporaryFile(text []byte) (name string, remove func(), err error) {
	fd, err := unix.MemfdCreate("kubeconfig", unix.MFD_CLOEXEC)
	if err != nil {
		return fileInDirectory(text)
	}
	name = fmt.Sprintf("/proc/self/fd/%d", fd)
	file := os.NewFile(uintptr(fd), name)
	remove = func() { file.Close() }
	if _, err := file.Write(text); err != nil {
		remove()
		return "", nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	if _, err := os.Stat(name); err != nil {
		remove()
		return fileInDirectory(text)
	}
	return name, remove, nil
}
