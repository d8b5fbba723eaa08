package floor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// Config says how to run "bench floor-server". All fields but http1 are
// required.
type Config struct {
	Executable string
	Dir        string // of the captures
	LogFile    string
	HTTP1      bool
}

// Start returns when the floor server listens. The caller must call stop.
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

// awaitAddress waits for the file that the floor server writes when it listens.
func awaitAddress(ctx context.Context, process *testbed.Child, cfg Config) (*testbed.Target, error) {
	var at testbed.Address
	if err := process.Await(ctx, filepath.Join(cfg.Dir, addressFile), &at); err != nil {
		return nil, fmt.Errorf("start floor server: %w", err)
	}
	return testbed.NewTarget(testbed.TargetConfig{HTTP1: cfg.HTTP1,
		REST: &rest.Config{Host: at.URL, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}}})
}

// URI is where the floor serves the body.
func (b Body) URI() string { return "/" + b.Name }

// WriteEvent gives a floor that will be started over dir the event of an object to
// send.
func WriteEvent(dir string, object []byte) error {
	if err := os.WriteFile(filepath.Join(dir, eventFile), testbed.ModifiedEvent(object), 0o600); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}
