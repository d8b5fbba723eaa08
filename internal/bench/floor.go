package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

const (
	// floorChunk is written at once, in bytes.
	floorChunk = 256 << 10
	// floorManifest lists what to serve; floorAddress tells where, once the
	// server listens. Both are files in the captures' directory.
	floorManifest = "floor.json"
	floorAddress  = "floor-address.json"
)

// address is the content of floorAddress and of etcdAddress.
type address struct {
	URL string `json:"url"`
	CA  []byte `json:"ca,omitempty"`
}

// newFloorCommand is run by --compare and of no use otherwise.
func newFloorCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:          "floor-server",
		Short:        "Serve captured bodies from memory",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			f, err := newFloor(floorConfig{dir: dir})
			if err != nil {
				return err
			}
			return f.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the captures")
	return cmd
}

// floorConfig configures a floor. dir is required.
type floorConfig struct {
	dir string
}

// floor is the least that Go's HTTP server can do for a response: it writes
// bodies that are in memory, in large pieces, over TLS.
type floor struct {
	cfg    floorConfig
	bodies map[string]loadedBody // by URI; never changed
	events *broadcast            // nil: it serves no watches
}

// floorBody is a response body that a server has sent, in a file.
type floorBody struct {
	Name            string `json:"name"` // the floor serves it at this path
	File            string `json:"file"` // in the captures' directory
	ContentType     string `json:"contentType"`
	ContentEncoding string `json:"contentEncoding,omitempty"`
}

type loadedBody struct {
	floorBody
	bytes []byte
}

// newFloor loads the captures.
func newFloor(cfg floorConfig) (*floor, error) {
	text, err := os.ReadFile(filepath.Join(cfg.dir, floorManifest))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var bodies []floorBody
	if err := json.Unmarshal(text, &bodies); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	f := &floor{cfg: cfg, bodies: make(map[string]loadedBody, len(bodies))}
	for _, c := range bodies {
		text, err := os.ReadFile(filepath.Join(cfg.dir, c.File))
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		f.bodies[c.uri()] = loadedBody{c, text}
	}
	if f.events, err = newBroadcast(cfg.dir); err != nil {
		return nil, err
	}
	return f, nil
}

// ServeHTTP answers every path that is no capture with an empty 200, so that
// clients can connect as to a real server.
func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.events != nil && r.URL.Path == floorWatch:
		f.events.watch(w, r)
		return
	case f.events != nil && r.URL.Path == floorRecords:
		f.events.records.watch(w, r)
		return
	case f.events != nil && r.URL.Path == floorEmit:
		f.events.emit(w, r)
		return
	}
	body, ok := f.bodies[r.URL.Path]
	if !ok {
		return
	}
	w.Header().Set("Content-Type", body.ContentType)
	if body.ContentEncoding != "" {
		w.Header().Set("Content-Encoding", body.ContentEncoding)
	}
	for rest := body.bytes; len(rest) > 0; {
		n := min(len(rest), floorChunk)
		if _, err := w.Write(rest[:n]); err != nil {
			return // the client has gone
		}
		rest = rest[n:]
	}
}

// Run serves on a free local port until ctx ends.
func (f *floor) Run(ctx context.Context) error {
	certificate, ca, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler:           f,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}},
		ReadHeaderTimeout: time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	err = writeJSON(filepath.Join(f.cfg.dir, floorAddress), address{"https://" + listener.Addr().String(), ca})
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			return fmt.Errorf("serve floor: %w", err)
		}
	}
	err = errors.Join(err, server.Close())
	if f.events != nil {
		f.events.close()
	}
	<-ended
	return err
}

// writeJSON makes the file appear at once with all its content.
func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
