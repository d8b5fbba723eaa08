package testbed

import (
	"context"
	"fmt"
	"path/filepath"
)

// etcdAddressFile is the file with the Address of etcd, which exists once etcd serves. It is
// in the directory of the sockets.
const etcdAddressFile = "address.json"

// etcdConfig says how to run "etcd". All fields are required.
type etcdConfig struct {
	executable string
	dataDir    string
	logFile    string
}

// etcdProcess is a child that serves etcd.
type etcdProcess struct {
	*Child
	endpoint      string
	removeSockets func()
}

// startEtcd starts the Testbed's etcd, and sets b.etcd.
func (b *Testbed) startEtcd(ctx context.Context) error {
	program, err := b.Config.serverProgram()
	if err != nil {
		return err
	}
	b.etcd, err = startEtcd(ctx, etcdConfig{executable: program, dataDir: b.etcdData(), logFile: b.LogPath("etcd.log")})
	return err
}

// startEtcd starts etcd, and returns when it serves. The caller must call end. The sockets are
// in a temporary directory, because the path of a socket must be short.
func startEtcd(ctx context.Context, cfg etcdConfig) (*etcdProcess, error) {
	socketDir, remove, err := TemporaryDir()
	if err != nil {
		return nil, err
	}
	process, err := StartChild(ChildConfig{Path: cfg.executable, LogFile: cfg.logFile,
		Args: []string{"etcd", "--dir=" + cfg.dataDir, "--sockets=" + socketDir}})
	if err != nil {
		remove()
		return nil, err
	}
	e := &etcdProcess{Child: process, removeSockets: remove}
	var address Address
	if err := process.Await(ctx, filepath.Join(socketDir, etcdAddressFile), &address); err != nil {
		e.end(ctx)
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	e.endpoint = address.URL
	return e, nil
}

// end stops etcd and removes its sockets. The data stays.
func (e *etcdProcess) end(ctx context.Context) {
	e.Stop(ctx)
	e.removeSockets()
}
