package testbed

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/tool/interrupt"
)

// etcdAddressFile has the Address of etcd once it serves. It is in the directory of
// the sockets.
const etcdAddressFile = "address.json"

// NewEtcdCommand returns the hidden command "etcd", which --external-etcd runs.
func NewEtcdCommand() *cobra.Command {
	var cfg etcdserver.Config
	cmd := &cobra.Command{
		Use:          "etcd",
		Short:        "Run the embedded etcd alone",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interrupt.Context(cmd.Context())
			defer stop()
			encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
			cfg.Logger = zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(cmd.ErrOrStderr())), zapcore.WarnLevel)
			return runEtcd(ctx, cfg)
		},
	}
	cmd.Flags().StringVar(&cfg.DataDir, "dir", "", "directory of the data")
	cmd.Flags().StringVar(&cfg.SocketDir, "sockets", "", "directory of the sockets")
	return cmd
}

// runEtcd serves until ctx ends.
func runEtcd(ctx context.Context, cfg etcdserver.Config) error {
	etcd, err := etcdserver.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer etcd.Close()
	if err := WriteJSON(filepath.Join(cfg.SocketDir, etcdAddressFile), Address{URL: etcd.Endpoint()}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-etcd.Err():
		return fmt.Errorf("serve etcd: %w", err)
	}
}

// etcdConfig says how to run "bench etcd". All fields are required.
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

// startEtcd returns when etcd serves. The caller must call end. The sockets are in a
// temporary directory, because the path of a socket must be short.
func startEtcd(ctx context.Context, cfg etcdConfig) (*etcdProcess, error) {
	socketDir, remove, err := TemporaryDir()
	if err != nil {
		return nil, err
	}
	process, err := StartChild(ChildConfig{Path: cfg.executable, LogFile: cfg.logFile,
		Args: []string{"bench", "etcd", "--dir=" + cfg.dataDir, "--sockets=" + socketDir}})
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
