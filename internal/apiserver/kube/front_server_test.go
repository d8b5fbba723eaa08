package kube

import (
	"crypto/tls"
	"slices"
	"testing"
)

// TestInsecureCiphers checks which cipher suites are reported to the operator.
func TestInsecureCiphers(t *testing.T) {
	suites := []uint16{tls.TLS_RSA_WITH_RC4_128_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_128_CBC_SHA256}
	want := []string{"TLS_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_AES_128_CBC_SHA256"}
	if got := insecureCiphers(suites); !slices.Equal(got, want) {
		t.Errorf("insecure: %v, not %v", got, want)
	}
}
