package datadir

import (
	"bytes"
	"crypto"
	"crypto/x509"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// parseCerts parses certificates in PEM form. name and remedy are for the error: what
// the data is, and what to do.
func parseCerts(name string, data []byte, remedy string) ([]*x509.Certificate, error) {
	certs, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, newFailure(ErrBadState, err, "%s holds no certificate in PEM form: %s", name, remedy)
	}
	// The parser skips blocks that are cut off, so the blocks are counted.
	if len(certs) != bytes.Count(data, []byte("-----BEGIN "+cert.CertificateBlockType)) {
		return nil, newFailure(ErrBadState, nil, "%s is damaged, not all of its certificates are whole: %s", name, remedy)
	}
	return certs, nil
}

// parseKey parses a private key in PEM form. name and remedy are as for parseCerts.
func parseKey(name string, data []byte, remedy string) (crypto.Signer, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, newFailure(ErrBadState, err, "%s holds no private key in PEM form: %s", name, remedy)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, newFailure(ErrBadState, nil, "%s holds a key that cannot sign: %s", name, remedy)
	}
	return key, nil
}

// keyFits reports whether a private key belongs to a certificate.
func keyFits(key crypto.Signer, certificate *x509.Certificate) bool {
	return samePublic(key, certificate.PublicKey)
}

// samePublic reports whether a public key belongs to a private key.
func samePublic(key crypto.Signer, public crypto.PublicKey) bool {
	own, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && own.Equal(public)
}
