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

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/interrupt"
)

const (
	// writeBytes is the number of bytes of a body that are written at once.
	writeBytes = 256 << 10

	// manifestFile lists the bodies to serve. It is in the directory of the captures.
	manifestFile = "floor.json"
	// addressFile has the server's address once it listens. It is in the same directory.
	addressFile = "floor-address.json"
)

// NewCommand returns the hidden command "floor-server", which Start runs.
func NewCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:          "floor-server",
		Short:        "Serve captured bodies from memory",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interrupt.Context(cmd.Context())
			defer stop()
			s, err := newServer(dir)
			if err != nil {
				return err
			}
			return s.Run(ctx)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the captures")
	return cmd
}

// server does the least that Go's HTTP server can do for a response. It writes a body that is in
// memory, in large pieces, over TLS.
type server struct {
	dir    string                // of the captures
	bodies map[string]loadedBody // by URI; never changed
	events *broadcast            // nil: the server has no event and serves no watches
}

// Body describes a response body that a server has sent. Its bytes are in the file Name. The
// manifest is a list of Bodies.
type Body struct {
	Name            string `json:"name"` // of its file, and a part of the URI
	ContentType     string `json:"contentType"`
	ContentEncoding string `json:"contentEncoding,omitempty"`
}

// URI returns the path at which the floor server serves the body.
func (b Body) URI() string { return "/" + b.Name }

// loadedBody is a body with its bytes.
type loadedBody struct {
	Body
	bytes []byte
}

// newServer returns a server of the bodies in the manifest, which it loads from dir.
func newServer(dir string) (*server, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var bodies []Body
	if err := json.Unmarshal(text, &bodies); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	s := &server{dir: dir, bodies: make(map[string]loadedBody, len(bodies))}
	for _, b := range bodies {
		text, err := os.ReadFile(filepath.Join(dir, b.Name))
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		s.bodies[b.URI()] = loadedBody{b, text}
	}
	if s.events, err = newBroadcast(dir); err != nil {
		return nil, err
	}
	return s, nil
}

// ServeHTTP sends a body, streams events, or publishes them. Every other path gets an empty 200,
// so that clients can connect as they connect to a real server.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.events != nil && r.URL.Path == WatchPath:
		s.events.watch(w, r)
		return
	case s.events != nil && r.URL.Path == RecordsPath:
		s.events.records.watch(w, r)
		return
	case s.events != nil && r.URL.Path == emitPath:
		s.events.emit(w, r)
		return
	}
	body, ok := s.bodies[r.URL.Path]
	if !ok {
		return
	}
	w.Header().Set("Content-Type", body.ContentType)
	if body.ContentEncoding != "" {
		w.Header().Set("Content-Encoding", body.ContentEncoding)
	}
	for remaining := body.bytes; len(remaining) > 0; {
		n := min(len(remaining), writeBytes)
		if _, err := w.Write(remaining[:n]); err != nil {
			return // the client has gone
		}
		remaining = remaining[n:]
	}
}

// Run listens on a free local port, writes its address to a file, and serves until ctx
// ends.
func (s *server) Run(ctx context.Context) error {
	certificate, ca, err := testbed.SelfSigned()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	httpServer := &http.Server{
		Handler:           s,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}},
		ReadHeaderTimeout: time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- httpServer.ServeTLS(listener, "", "") }()
	err = testbed.WriteJSON(filepath.Join(s.dir, addressFile), testbed.Address{URL: "https://" + listener.Addr().String(), CA: ca})
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			return fmt.Errorf("serve floor: %w", err)
		}
	}
	err = errors.Join(err, httpServer.Close())
	if s.events != nil {
		s.events.records.close()
	}
	<-ended
	return err
}
