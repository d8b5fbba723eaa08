package server

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// releasePages takes pages of mapped files out of this process's memory: of the
// database, which the load touches once as a whole, and of the program, half of
// which only runs or is read at start. The pages stay in the system's cache and
// come back when touched.
func releasePages(files ...string) error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("read memory map: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// 00400000-03f52000 r-xp 00000000 fe:00 9978081     /usr/bin/millrace
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || strings.Contains(fields[1], "w") || !slices.Contains(files, fields[5]) {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return fmt.Errorf("read memory map: %w", err)
		}
		// A mapping of a file that is only read loses nothing. It is not Go's
		// memory, so there is no slice to give to unix.Madvise.
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release pages of %s: %w", fields[5], errno)
		}
	}
	return lines.Err()
}
