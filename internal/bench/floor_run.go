package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

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
func startFloor(ctx context.Context, cfg floorRun, done []measurable) (*server, error) {
	captures := make([]capture, len(done))
	for i, m := range done {
		captures[i] = m.capture
	}
	if err := writeJSON(filepath.Join(cfg.dir, floorManifest), captures); err != nil {
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
	s := &server{child: process}
	if s.target, err = s.awaitFloor(ctx, cfg); err != nil {
		s.stop(ctx)
		return nil, err
	}
	return s, nil
}

// awaitFloor waits for the file that the floor server writes when it listens.
func (s *server) awaitFloor(ctx context.Context, cfg floorRun) (*target, error) {
	var at address
	if err := s.await(ctx, filepath.Join(cfg.dir, floorAddress), &at); err != nil {
		return nil, fmt.Errorf("start floor server: %w", err)
	}
	return newTarget(targetConfig{http1: cfg.http1,
		rest: &rest.Config{Host: at.URL, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}}})
}

// floorWorkload asks the floor for what w got from a server.
func floorWorkload(w workload) workload {
	w.uri = "/" + w.name
	return w
}

// selfSigned makes a certificate for 127.0.0.1 that is its own authority,
// which is also returned as PEM.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("generate key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(30 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("create certificate: %w", err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca, nil
}
