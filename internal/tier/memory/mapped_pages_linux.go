package memory

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// releasePages takes the pages of mapped files out of this process's memory. The pages
// stay in the system's cache and come back when they are touched. files are paths as the
// kernel prints them: absolute, without links and spaces. A file that is not mapped is
// ignored. The caller must not unmap the files during the call. Only shared read-only
// mappings are released: dropping their pages loses nothing.
func releasePages(files ...string) error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("read memory map: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// addresses                 mode offset   dev   inode  path
		// 7f0000000000-7f0006100000 r--s 00000000 fe:00 4711   /data/member/snap/db
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "r--s" || !slices.Contains(files, fields[5]) {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return fmt.Errorf("read memory map: %w", err)
		}
		// unix.Madvise needs a slice, and this memory is not Go's.
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release pages of %s: %w", fields[5], errno)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read memory map: %w", err)
	}
	return nil
}
