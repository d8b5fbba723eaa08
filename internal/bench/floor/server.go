package floor

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

	"github.com/millrace/millrace/internal/bench/testbed"
)

const (
	// writeBytes is written at once, in bytes.
	writeBytes = 256 << 10
	// manifestFile lists what to serve; floorAddress tells where, once the
	// server listens. Both are files in the captures' directory.
	manifestFile = "floor.json"
	addressFile  = "floor-address.json"
)

// NewCommand is run by --compare and of no use otherwise.
func NewCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:          "floor-server",
		Short:        "Serve captured bodies from memory",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := testbed.Interruptible(cmd.Context())
			defer stop()
			f, err := newServer(config{dir: dir})
			if err != nil {
				return err
			}
			return f.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the captures")
	return cmd
}

// config configures a floor. dir is required.
type config struct {
	dir string
}

// server is the least that Go's HTTP server can do for a response: it writes
// bodies that are in memory, in large pieces, over TLS.
type server struct {
	cfg    config
	bodies map[string]loadedBody // by URI; never changed
	events *broadcast            // nil: it serves no watches
}

// Body is a response body that a server has sent, in a file.
type Body struct {
	Name            string `json:"name"` // the floor serves it at this path
	File            string `json:"file"` // in the captures' directory
	ContentType     string `json:"contentType"`
	ContentEncoding string `json:"contentEncoding,omitempty"`
}

type loadedBody struct {
	Body
	bytes []byte
}

// newServer loads the captures.
func newServer(cfg config) (*server, error) {
	text, err := os.ReadFile(filepath.Join(cfg.dir, manifestFile))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var bodies []Body
	if err := json.Unmarshal(text, &bodies); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	f := &server{cfg: cfg, bodies: make(map[string]loadedBody, len(bodies))}
	for _, c := range bodies {
		text, err := os.ReadFile(filepath.Join(cfg.dir, c.File))
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		f.bodies[c.URI()] = loadedBody{c, text}
	}
	if f.events, err = newBroadcast(cfg.dir); err != nil {
		return nil, err
	}
	return f, nil
}

// ServeHTTP answers every path that is no capture with an empty 200, so that
// clients can connect as to a real server.
func (f *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.events != nil && r.URL.Path == WatchPath:
		f.events.watch(w, r)
		return
	case f.events != nil && r.URL.Path == RecordsPath:
		f.events.records.watch(w, r)
		return
	case f.events != nil && r.URL.Path == emitPath:
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
		n := min(len(rest), writeBytes)
		if _, err := w.Write(rest[:n]); err != nil {
			return // the client has gone
		}
		rest = rest[n:]
	}
}

// Run serves on a free local port until ctx ends.
func (f *server) Run(ctx context.Context) error {
	certificate, ca, err := testbed.SelfSigned()
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
	err = testbed.WriteJSON(filepath.Join(f.cfg.dir, addressFile), testbed.Address{URL: "https://" + listener.Addr().String(), CA: ca})
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
