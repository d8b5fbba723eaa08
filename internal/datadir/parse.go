package datadir

import (
	"bytes"
	"crypto"
	"crypto/x509"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// parseCerts reads certificates in PEM form; name is what the error calls the
// data, remedy what it advises.
func parseCerts(name string, data []byte, remedy string) ([]*x509.Certificate, error) {
	certs, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, fail(ErrBadState, err, "%s holds no certificate in PEM form: %s", name, remedy)
	}
	// The parser passes over blocks that are cut short.
	if len(certs) != bytes.Count(data, []byte("-----BEGIN "+cert.CertificateBlockType)) {
		return nil, fail(ErrBadState, nil, "%s is damaged, not all of its certificates are whole: %s", name, remedy)
	}
	return certs, nil
}

// parseKey reads a private key in PEM form.
func parseKey(name string, data []byte, remedy string) (crypto.Signer, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fail(ErrBadState, err, "%s holds no private key in PEM form: %s", name, remedy)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fail(ErrBadState, nil, "%s holds a key that cannot sign: %s", name, remedy)
	}
	return key, nil
}

func keyFits(key crypto.Signer, certificate *x509.Certificate) bool {
	return samePublic(key, certificate.PublicKey)
}

func samePublic(key crypto.Signer, public crypto.PublicKey) bool {
	own, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && own.Equal(public)
}
