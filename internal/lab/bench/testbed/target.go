package testbed

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
)

// TargetConfig describes a server to send requests to.
type TargetConfig struct {
	// REST holds the address and credentials. Required.
	REST *rest.Config
	// HTTP1 asks for HTTP/1.1. Zero value: HTTP/2 only.
	HTTP1 bool
}

// Target is the address of a server, with credentials. Every client has a connection of its
// own (Conn), so that the number of connections is known. Target is safe for concurrent use.
type Target struct {
	Config  TargetConfig
	BaseURL string
	tls     *tls.Config // nil: not over TLS
}

// NewTarget returns a Target. It opens no connection.
func NewTarget(cfg TargetConfig) (*Target, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("build TLS settings: %w", err)
	}
	base := cfg.REST.Host
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	return &Target{Config: cfg, BaseURL: strings.TrimSuffix(base, "/"), tls: tlsConfig}, nil
}

// Connect returns n clients whose connections are open, so that handshakes are not measured.
// The caller must call CloseAll.
func (t *Target) Connect(ctx context.Context, n int) ([]*Conn, error) {
	conns := make([]*Conn, 0, n)
	for range n {
		c, err := t.Dial(0)
		if err == nil {
			conns = append(conns, c)
			err = c.open(ctx, t)
		}
		if err != nil {
			CloseAll(conns)
			return nil, fmt.Errorf("connect to server: %w", Cause(ctx, err))
		}
	}
	return conns, nil
}

// Get reads a small JSON document into v. If v is nil, Get only checks that the status is 200.
func (t *Target) Get(ctx context.Context, uri string, v any) error {
	body, err := t.fetch(ctx, Request{URI: uri, Accept: "application/json"})
	if err != nil || v == nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read %s: %w", uri, err)
	}
	return nil
}

// fetch returns a small body, which it reads over a connection of its own.
func (t *Target) fetch(ctx context.Context, r Request) ([]byte, error) {
	c, err := t.Dial(0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	req, err := t.NewRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.FetchBody(req)
}

// Version returns the server's gitVersion, or a text that says why it is unknown.
func (t *Target) Version(ctx context.Context) string {
	var info struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := t.Get(ctx, "/version", &info); err != nil {
		return "unknown (" + err.Error() + ")"
	}
	return info.GitVersion
}
