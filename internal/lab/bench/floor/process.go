package floor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// Config says how to run "bench floor-server". All fields but HTTP1 are required.
type Config struct {
	Executable string
	Dir        string // shared with the floor server: bodies, manifest, event and address
	LogFile    string
	HTTP1      bool
}

// Start starts a floor server for the bodies, whose files are in cfg.Dir, and returns when it
// listens. The caller must call Stop on the returned Server.
func Start(ctx context.Context, cfg Config, bodies []Body) (*testbed.Server, error) {
	if err := testbed.WriteJSON(filepath.Join(cfg.Dir, manifestFile), bodies); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(cfg.Dir, addressFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old address: %w", err)
	}
	child, err := testbed.StartChild(testbed.ChildConfig{Path: cfg.Executable, LogFile: cfg.LogFile,
		Args: []string{"bench", "floor-server", "--dir=" + cfg.Dir}})
	if err != nil {
		return nil, err
	}
	target, err := awaitAddress(ctx, child, cfg)
	if err != nil {
		child.Stop(ctx)
		return nil, err
	}
	return &testbed.Server{Child: child, Target: target}, nil
}

// awaitAddress waits until the floor server listens, and returns its address.
func awaitAddress(ctx context.Context, child *testbed.Child, cfg Config) (*testbed.Target, error) {
	var address testbed.Address
	if err := child.Await(ctx, filepath.Join(cfg.Dir, addressFile), &address); err != nil {
		return nil, fmt.Errorf("start floor server: %w", err)
	}
	return testbed.NewTarget(testbed.TargetConfig{HTTP1: cfg.HTTP1,
		REST: &rest.Config{Host: address.URL, TLSClientConfig: rest.TLSClientConfig{CAData: address.CA}}})
}

// WriteWatchEvent stores the event that a floor server sends to its streams: a modification of
// object, which is JSON. Call it before Start, with Config.Dir.
func WriteWatchEvent(dir string, object []byte) error {
	if err := os.WriteFile(filepath.Join(dir, eventFile), testbed.ModifiedEvent(object), 0o600); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}
