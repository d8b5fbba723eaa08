package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
)

// floorRun says how to run "bench floor-server". All fields but http1 are
// required.
type floorRun struct {
	exe   string
	dir   string // of the captures
	log   string
	http1 bool
}

// startFloor returns when the floor server listens. The caller must call stop.
func startFloor(ctx context.Context, cfg floorRun, bodies []floorBody) (*server, error) {
	if err := writeJSON(filepath.Join(cfg.dir, floorManifest), bodies); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(cfg.dir, floorAddress)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old address: %w", err)
	}
	process, err := startChild(childConfig{path: cfg.exe, log: cfg.log,
		args: []string{"bench", "floor-server", "--dir=" + cfg.dir}})
	if err != nil {
		return nil, err
	}
	t, err := awaitFloor(ctx, process, cfg)
	if err != nil {
		process.stop(ctx)
		return nil, err
	}
	return &server{child: process, target: t}, nil
}

// awaitFloor waits for the file that the floor server writes when it listens.
func awaitFloor(ctx context.Context, process *child, cfg floorRun) (*target, error) {
	var at address
	if err := process.await(ctx, filepath.Join(cfg.dir, floorAddress), &at); err != nil {
		return nil, fmt.Errorf("start floor server: %w", err)
	}
	return newTarget(targetConfig{http1: cfg.http1,
		rest: &rest.Config{Host: at.URL, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}}})
}

// uri is where the floor serves the body.
func (b floorBody) uri() string { return "/" + b.Name }

// writeEvent gives a floor that will be started over dir the event of an object to
// send.
func writeEvent(dir string, object []byte) error {
	if err := os.WriteFile(filepath.Join(dir, floorFrame), frame(object), 0o600); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}
