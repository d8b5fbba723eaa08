package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// TestCertificateIsReloaded replaces the files of a certificate for one host name while a
// server runs, and checks that new connections get the new certificate.
func TestCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue(t, cert, key, "first")
	s := harness.Start(t, harness.ShortTempDir(t), "--tls-sni-cert-key="+cert+","+key+":named.test")
	serverName := func(ctx context.Context) (name, protocol string, err error) {
		dialer := tls.Dialer{Config: &tls.Config{ServerName: "named.test", InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}}
		conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "https://"))
		if err != nil {
			return "", "", err
		}
		defer conn.Close()
		state := conn.(*tls.Conn).ConnectionState()
		return state.PeerCertificates[0].Subject.CommonName, state.NegotiatedProtocol, nil
	}
	if name, protocol, err := serverName(t.Context()); err != nil || name != "first" || protocol != "h2" {
		t.Fatalf("got certificate %q over %q (%v), want the first over h2", name, protocol, err)
	}
	issue(t, cert, key, "second")
	eventually(t, func(ctx context.Context) error {
		name, _, err := serverName(ctx)
		if err == nil && name != "second" {
			err = fmt.Errorf("the certificate is still %q", name)
		}
		return err
	})
}

// issue writes a self-signed certificate and its key. It replaces each file in one step.
func issue(t *testing.T, certFile, keyFile, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"named.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for file, block := range map[string]*pem.Block{
		keyFile:  {Type: "PRIVATE KEY", Bytes: encoded},
		certFile: {Type: "CERTIFICATE", Bytes: cert},
	} {
		check(t, os.Rename(writeFile(t, file+".new", string(pem.EncodeToMemory(block))), file))
	}
}
