package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// server sends requests to an API server over a number of connections.
type server struct {
	base       string
	agent      string // user agent of requests that are not from the log
	transports []http.RoundTripper
	// newest is the newest resource version of any answer.
	newest atomic.Uint64
}

// newServer returns a server with one connection for each of its transports. It sends nothing.
func newServer(config *rest.Config, connections int) (*server, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	s := &server{base: strings.TrimSuffix(address.String(), "/"), agent: config.UserAgent}
	for range connections {
		one := rest.CopyConfig(config)
		one.DisableCompression = true // the player decompresses, to count the bytes that were sent
		one.UserAgent = ""            // each request has its own
		one.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
		transport, err := rest.TransportFor(one)
		if err != nil {
			return nil, fmt.Errorf("make a client of %s: %w", s.base, err)
		}
		s.transports = append(s.transports, transport)
	}
	return s, nil
}

// close closes the connections that no request uses.
func (s *server) close() {
	for _, t := range s.transports {
		(&http.Client{Transport: t}).CloseIdleConnections()
	}
}

// noteRevision sets newest to revision, if revision is newer.
func (s *server) noteRevision(revision uint64) {
	for old := s.newest.Load(); revision > old; old = s.newest.Load() {
		if s.newest.CompareAndSwap(old, revision) {
			return
		}
	}
}

// check returns the version of the server. It also reads a first value of newest.
func (s *server) check(ctx context.Context) (string, error) {
	var version version.Info
	if err := s.getJSON(ctx, "/version", &version); err != nil {
		return "", err
	}
	var list metav1.PartialObjectMetadataList
	if err := s.getJSON(ctx, "/api/v1/namespaces?limit=1", &list); err != nil {
		return "", err
	}
	revision, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return "", fmt.Errorf("read the resource version of %s: %w", s.base, err)
	}
	s.noteRevision(revision)
	return version.GitVersion, nil
}

// getJSON decodes the JSON of a path into *dst.
func (s *server) getJSON(ctx context.Context, path string, dst any) error {
	body, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(dst); err != nil {
		return fmt.Errorf("read %s%s: %w", s.base, path, err)
	}
	return nil
}

// get sends a GET as the user of the kubeconfig, and returns the body of an answer with the status
// 200. The caller must close the body.
func (s *server) get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", s.agent)
	resp, err := s.transports[0].RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", s.base, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // the status is the error
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			return nil, fmt.Errorf("ask %s%s: status %s: give a kubeconfig whose user may read the path", s.base, path, resp.Status)
		}
		return nil, fmt.Errorf("ask %s%s: status %s", s.base, path, resp.Status)
	}
	return resp.Body, nil
}

// usage is what the process of a server uses.
type usage struct {
	cpu      float64 // seconds since it started
	resident float64 // bytes
}

const usageTimeout = 10 * time.Second

// readUsage reads the metrics of the server. ok is false if the metrics lack the CPU, or if the user
// may not read them.
func (s *server) readUsage(ctx context.Context) (u usage, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	body, err := s.get(ctx, "/metrics")
	if err != nil {
		return u, false
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "process_cpu_seconds_total":
			u.cpu, err = strconv.ParseFloat(value, 64)
			ok = err == nil
		case "process_resident_memory_bytes":
			u.resident, _ = strconv.ParseFloat(value, 64)
		}
	}
	return u, ok
}
