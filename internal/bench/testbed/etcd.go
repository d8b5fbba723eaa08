package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/millrace/millrace/internal/store"
)

// etcdAddress tells where etcd listens, once it serves. It is a file in the
// directory of the sockets.
const etcdAddress = "address.json"

// NewEtcdCommand is run by --external-etcd and of no use otherwise.
func NewEtcdCommand() *cobra.Command {
	var cfg store.EmbeddedConfig
	cmd := &cobra.Command{
		Use:          "etcd",
		Short:        "Run the embedded etcd alone",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := Interruptible(cmd.Context())
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
func runEtcd(ctx context.Context, cfg store.EmbeddedConfig) error {
	etcd, err := store.OpenEmbedded(ctx, cfg)
	if err != nil {
		return err
	}
	defer etcd.Close()
	if err := WriteJSON(filepath.Join(cfg.SocketDir, etcdAddress), Address{URL: etcd.Endpoint()}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-etcd.Err():
		return fmt.Errorf("serve etcd: %w", err)
	}
}

// etcdRun says how to run "bench etcd". All fields are required.
type etcdRun struct {
	exe string
	dir string // of the data
	log string
}

// etcdProcess is a running etcd that serves.
type etcdProcess struct {
	*Child
	endpoint string
	sockets  string
}

// startEtcd returns when etcd serves. The caller must call end. Sockets are in
// a temporary directory, because their paths must be short.
func startEtcd(ctx context.Context, cfg etcdRun) (*etcdProcess, error) {
	sockets, err := os.MkdirTemp("", "millrace-bench-etcd-")
	if err != nil {
		return nil, fmt.Errorf("create temporary directory: %w", err)
	}
	process, err := StartChild(ChildConfig{Path: cfg.exe, LogFile: cfg.log,
		Args: []string{"bench", "etcd", "--dir=" + cfg.dir, "--sockets=" + sockets}})
	if err != nil {
		_ = os.RemoveAll(sockets)
		return nil, err
	}
	e := &etcdProcess{Child: process, sockets: sockets}
	var at Address
	if err := process.Await(ctx, filepath.Join(sockets, etcdAddress), &at); err != nil {
		e.end(ctx)
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	e.endpoint = at.URL
	return e, nil
}

func (e *etcdProcess) end(ctx context.Context) {
	e.Stop(ctx)
	_ = os.RemoveAll(e.sockets)
}
