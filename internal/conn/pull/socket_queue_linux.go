package pull

import "golang.org/x/sys/unix"

// socketQueue returns the number of bytes in a TCP socket that the client has not
// acknowledged.
func socketQueue(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}
