package datadir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// superuser owns files that nobody else can exchange.
const superuser = 0

// stranger returns another user that may exchange what is at path: the owner of what is
// there, or of the symbolic link that leads there. The second result is false if there
// is none. A missing file has none.
func stranger(path string) (uid int, found bool, err error) {
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

// ownerOf is a file's user, or the given one where files have none.
func ownerOf(info fs.FileInfo, me int) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return me
}

// checkOwner makes sure that nobody else can exchange the data directory: its owner
// could put an authority of his own there, which the next start takes.
func checkOwner(dir string) error {
	uid, found, err := stranger(dir)
	switch {
	case err != nil:
		return fail(ErrUnusable, err, "cannot use data directory %s: %v: choose another with --data-dir", dir, cause(err))
	case found:
		return fail(ErrUnusable, nil, "data directory %s belongs to user %d and this is user %d: run as its owner, give it away with `chown -R -h %d %s` if its content can be trusted, or choose another with --data-dir",
			dir, uid, os.Geteuid(), os.Geteuid(), dir)
	}
	return nil
}

// checkParts makes sure of the directories within the data directory. Links may lead
// out of it, to where its mode does not keep others away.
func checkParts(paths Paths) error {
	for _, dir := range []string{paths.PKI, paths.Etcd, paths.EtcdData} {
		uid, found, err := stranger(dir)
		if err != nil {
			return fail(ErrUnusable, err, "cannot use %s: %v: repair it or choose another data directory with --data-dir", dir, cause(err))
		}
		if found {
			return fail(ErrUnusable, nil, "%s belongs to user %d and this is user %d: give it away with `chown -R -h %d %s` if its content can be trusted, or choose another data directory with --data-dir",
				dir, uid, os.Geteuid(), os.Geteuid(), dir)
		}
		link, err := os.Lstat(dir)
		if err != nil || link.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&othersWrite != 0 {
			return fail(ErrUnusable, nil, "%s leads to a directory that other users may write to: run `chmod go-w %s`, or choose another data directory with --data-dir", dir, dir)
		}
	}
	return nil
}
