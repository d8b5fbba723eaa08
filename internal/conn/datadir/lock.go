package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// takeLock takes the directory's lock without waiting, and writes this process's id
// into the file. The kernel releases the lock when the process ends, however it ends.
// The file is never removed: a lock on a removed file excludes no other process.
func takeLock(paths Paths) (*os.File, error) {
	file, err := os.OpenFile(paths.Lock, os.O_RDWR|os.O_CREATE, keyMode)
	if err != nil {
		return nil, newFailure(ErrUnusable, err, "cannot open %s: %v: make it writable or choose another directory with --data-dir", paths.Lock, cause(err))
	}
	if err := flock(file); err != nil {
		defer file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, newFailure(ErrInUse, nil, "data directory %s is in use by %s: stop it or choose another with --data-dir", paths.Root, lockHolder(file))
		}
		return nil, newFailure(ErrUnusable, err, "cannot lock %s: %v: choose a directory on a local file system with --data-dir", paths.Lock, err)
	}
	if err := writeHolder(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// flock locks a file without waiting. A signal does not interrupt it.
func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// writeHolder replaces the lock file's content by this process's id.
func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("truncate lock file: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// lockHolder returns the name of the process that holds the lock, for errors. The file
// may be empty: the id is written after the lock is taken, and removed before it is
// released.
func lockHolder(file *os.File) string {
	data, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil {
		return "another process"
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 0 {
		return "another process"
	}
	return "process " + strconv.Itoa(pid)
}

// releaseLock empties the lock file and releases the lock, also if it cannot be emptied.
func releaseLock(file *os.File) error {
	truncateErr := file.Truncate(0)
	if err := file.Close(); err != nil {
		return fmt.Errorf("release lock: %w", err)
	}
	if truncateErr != nil {
		return fmt.Errorf("truncate lock file: %w", truncateErr)
	}
	return nil
}
