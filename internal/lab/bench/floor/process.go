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
	Dir        string // has the files of the bodies and the event
	LogFile    string
	HTTP1      bool
}

// Start starts a floor server for the bodies, and returns when it listens. The caller
// must call Stop.
func Start(ctx context.Context, cfg Config, bodies []Body) (*testbed.Server, error) {
	if err := testbed.WriteJSON(filepath.Join(cfg.Dir, manifestFile), bodies); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(cfg.Dir, addressFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old address: %w", err)
	}
	process, err := testbed.StartChild(testbed.ChildConfig{Path: cfg.Executable, LogFile: cfg.LogFile,
		Args: []string{"bench", "floor-server", "--dir=" + cfg.Dir}})
	if err != nil {
		return nil, err
	}
	t, err := awaitAddress(ctx, process, cfg)
	if err != nil {
		process.Stop(ctx)
		return nil, err
	}
	return &testbed.Server{Child: process, Target: t}, nil
}

// awaitAddress waits until the floor server listens.
func awaitAddress(ctx context.Context, process *testbed.Child, cfg Config) (*testbed.Target, error) {
	var address testbed.Address
	if err := process.Await(ctx, filepath.Join(cfg.Dir, addressFile), &address); err != nil {
		return nil, fmt.Errorf("start floor server: %w", err)
	}
	return testbed.NewTarget(testbed.TargetConfig{HTTP1: cfg.HTTP1,
		REST: &rest.Config{Host: address.URL, TLSClientConfig: rest.TLSClientConfig{CAData: address.CA}}})
}

// URI is the path at which the floor serves the body.
func (b Body) URI() string { return "/" + b.Name }

// WriteEvent stores the event that a floor will send to its streams: a modification of
// object. The floor must be started later, with the same dir.
func WriteEvent(dir string, object []byte) error {
	if err := os.WriteFile(filepath.Join(dir, eventFile), testbed.ModifiedEvent(object), 0o600); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}
