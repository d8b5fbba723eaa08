package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// superuser is root. A file of root is safe: no other user can exchange it.
const superuser = 0

// otherOwner returns another user who can exchange the file at path: the owner of the
// file, or of a symbolic link to it. found is false if there is no such user, or no
// file. root does not count as the owner of a link.
func otherOwner(path string) (uid int, found bool, err error) {
	me := os.Geteuid()
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		uid := ownerOf(info, me)
		if link := info.Mode()&fs.ModeSymlink != 0; uid != me && !(link && uid == superuser) {
			return uid, true, nil
		}
	}
	return 0, false, nil
}

// ownerOf returns a file's user, or me on systems whose files have no user.
func ownerOf(info fs.FileInfo, me int) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return me
}

// checkOwner makes sure that no other user owns the data directory. Its owner could put
// an authority of their own there, which the next start would use.
func checkOwner(dir string) error {
	uid, found, err := otherOwner(dir)
	switch {
	case err != nil:
		return newFailure(ErrUnusable, err, "cannot use data directory %s: %v: choose another with --data-dir", dir, cause(err))
	case found:
		return newFailure(ErrUnusable, nil, "data directory %s belongs to user %d and this is user %d: run as its owner, give it away with `chown -R -h %d %s` if its content can be trusted, or choose another with --data-dir",
			dir, uid, os.Geteuid(), os.Geteuid(), dir)
	}
	return nil
}

// checkParts makes sure that no other user can exchange the directories within the data
// directory. They may be links that lead out of it, where its own permissions do not
// protect them.
func checkParts(paths Paths) error {
	for _, dir := range []string{paths.PKI, paths.Etcd, paths.EtcdData, paths.Checkpoints} {
		uid, found, err := otherOwner(dir)
		if err != nil {
			return newFailure(ErrUnusable, err, "cannot use %s: %v: repair it or choose another data directory with --data-dir", dir, cause(err))
		}
		if found {
			return newFailure(ErrUnusable, nil, "%s belongs to user %d and this is user %d: give it away with `chown -R -h %d %s` if its content can be trusted, or choose another data directory with --data-dir",
				dir, uid, os.Geteuid(), os.Geteuid(), dir)
		}
		link, err := os.Lstat(dir)
		if err != nil || link.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&othersWrite != 0 {
			return newFailure(ErrUnusable, nil, "%s leads to a directory that other users may write to: run `chmod go-w %s`, or choose another data directory with --data-dir", dir, dir)
		}
	}
	return nil
}
