package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/millrace/millrace/internal/feed/etcdserver"
)

// etcdAddressFile is the file with etcd's URL, in JSON. It is in the directory of the sockets
// once etcd serves.
const etcdAddressFile = "address.json"

// newEtcdCommand makes the hidden command "etcd", by which benchmarks run the embedded etcd in a
// process of its own.
func newEtcdCommand() *cobra.Command {
	var cfg etcdserver.Config
	cmd := &cobra.Command{
		Use:    "etcd",
		Short:  "Run the embedded etcd alone",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
			cfg.Logger = zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(cmd.ErrOrStderr())), zapcore.WarnLevel)
			return runEtcd(genericapiserver.SetupSignalContext(), cfg)
		},
	}
	cmd.Flags().StringVar(&cfg.DataDir, "dir", "", "directory of the data")
	cmd.Flags().StringVar(&cfg.SocketDir, "sockets", "", "directory of the sockets")
	return cmd
}

// runEtcd serves until ctx ends or etcd fails.
func runEtcd(ctx context.Context, cfg etcdserver.Config) error {
	etcd, err := etcdserver.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer etcd.Close()
	if err := writeAddress(filepath.Join(cfg.SocketDir, etcdAddressFile), etcd.Endpoint()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-etcd.Err():
		return fmt.Errorf("serve etcd: %w", err)
	}
}

// writeAddress writes a URL into a file that is there only when it is complete.
func writeAddress(file, url string) error {
	content, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	return os.Rename(file+".new", file)
}
