package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DefaultPath is the data directory if no other is named. It is relative to the working
// directory.
const DefaultPath = "./millrace-data"

// Paths has the absolute names of the files in a data directory, whether they exist or
// not.
type Paths struct {
	Root string
	Lock string
	PKI  string

	CACert, CAKey                             string
	ServingCert, ServingKey                   string
	ServiceAccountKey, ServiceAccountPub      string
	FrontProxyCACert, FrontProxyCAKey         string
	FrontProxyClientCert, FrontProxyClientKey string
	AdminKubeconfig                           string
	ControllerManagerKubeconfig               string
	SchedulerKubeconfig                       string
	Etcd                                      string // the embedded etcd's own directory
	EtcdData                                  string // the embedded etcd's data directory
	Checkpoints                               string // what a replica holds
}

func newPaths(root string) Paths {
	pki := filepath.Join(root, "pki")
	etcd := filepath.Join(root, "etcd")
	return Paths{
		Root:                        root,
		Lock:                        filepath.Join(root, "lock"),
		PKI:                         pki,
		CACert:                      filepath.Join(pki, "ca.crt"),
		CAKey:                       filepath.Join(pki, "ca.key"),
		ServingCert:                 filepath.Join(pki, "apiserver.crt"),
		ServingKey:                  filepath.Join(pki, "apiserver.key"),
		ServiceAccountKey:           filepath.Join(pki, "sa.key"),
		ServiceAccountPub:           filepath.Join(pki, "sa.pub"),
		FrontProxyCACert:            filepath.Join(pki, "front-proxy-ca.crt"),
		FrontProxyCAKey:             filepath.Join(pki, "front-proxy-ca.key"),
		FrontProxyClientCert:        filepath.Join(pki, "front-proxy-client.crt"),
		FrontProxyClientKey:         filepath.Join(pki, "front-proxy-client.key"),
		AdminKubeconfig:             filepath.Join(root, "admin.kubeconfig"),
		ControllerManagerKubeconfig: filepath.Join(root, "controller-manager.kubeconfig"),
		SchedulerKubeconfig:         filepath.Join(root, "scheduler.kubeconfig"),
		Etcd:                        etcd,
		EtcdData:                    filepath.Join(etcd, "data"),
		Checkpoints:                 filepath.Join(root, "checkpoints"),
	}
}

// absolute returns the absolute path of a data directory. Empty means DefaultPath.
func absolute(path string) (string, error) {
	if path == "" {
		path = DefaultPath
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve data directory %s: %w", path, err)
	}
	return abs, nil
}

// Lookup finds a data directory for reading. It takes no lock and writes nothing, and
// works while a server runs in the directory and after it has stopped. An empty path
// means DefaultPath. Lookup fails with ErrNotFound unless the directory holds the
// authority's certificate and all three kubeconfigs.
func Lookup(path string) (Paths, error) {
	root, err := absolute(path)
	if err != nil {
		return Paths{}, err
	}
	paths := newPaths(root)
	info, err := os.Stat(root)
	if err != nil {
		return Paths{}, lookupError(root, root, err)
	}
	if !info.IsDir() {
		return Paths{}, newFailure(ErrNotFound, nil, "%s is not a directory: name a millrace data directory with --data-dir or give --kubeconfig", root)
	}
	// A directory of root is accepted: no other user can exchange the files in it.
	if uid, found, err := otherOwner(root); err == nil && found && uid != superuser {
		return Paths{}, newFailure(ErrNotFound, nil, "millrace data directory %s belongs to user %d and this is user %d: run as its owner or give --kubeconfig", root, uid, os.Geteuid())
	}
	needed := []string{paths.AdminKubeconfig, paths.CACert, paths.ControllerManagerKubeconfig, paths.SchedulerKubeconfig}
	for i, file := range needed {
		_, err := os.Stat(file)
		switch {
		case err == nil:
		case i > 0 && errors.Is(err, fs.ErrNotExist):
			return Paths{}, newFailure(ErrNotFound, err, "millrace data directory %s is incomplete, %s is missing: start `millrace serve` once more to have it made or give --kubeconfig", root, relative(root, file))
		default:
			return Paths{}, lookupError(root, file, err)
		}
	}
	return paths, nil
}

// lookupError returns the error of Lookup for a file that cannot be read.
func lookupError(root, file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newFailure(ErrNotFound, err, "no millrace data directory at %s: start `millrace serve` first or give --kubeconfig", root)
	case errors.Is(err, fs.ErrPermission):
		return newFailure(ErrNotFound, err, "millrace data directory %s is not open to this user: run as the user that runs `millrace serve` or give --kubeconfig", root)
	}
	return newFailure(ErrNotFound, err, "check %s: %v: repair it or give --kubeconfig", file, cause(err))
}

// relative returns a file's name relative to root, for messages that name root too.
func relative(root, file string) string {
	rel, err := filepath.Rel(root, file)
	if err != nil {
		return file
	}
	return rel
}

// cause returns the reason within an error of package os, for messages that name the
// file themselves.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
