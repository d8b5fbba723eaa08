package datadir

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// ensurePair plans a certificate and its key in two files, or a new certificate if the
// existing one has to be issued again.
func (p *plan) ensurePair(a *authority, certFile, keyFile string, spec leafSpec) error {
	certPEM, err := readOptional(certFile)
	if err != nil {
		return err
	}
	keyPEM, err := readOptional(keyFile)
	if err != nil {
		return err
	}
	if keyPEM == nil {
		if certPEM != nil {
			return newFailure(ErrBadState, nil, "%s is missing, the key of %s: restore it, or remove %s so that both are made again", keyFile, certFile, certFile)
		}
		return p.newPair(a, certFile, keyFile, spec)
	}
	both := fmt.Sprintf("restore it, or remove %s and %s so that both are made again", certFile, keyFile)
	key, err := parseKey(keyFile, keyPEM, both)
	if err != nil {
		return err
	}
	reason := missing
	if certPEM != nil {
		chain, err := parseCerts(certFile, certPEM, "restore it, or remove it to have a new one made")
		if err != nil {
			return err
		}
		if !keyFits(key, chain[0]) {
			return newFailure(ErrBadState, nil, "%s does not belong to %s: %s", keyFile, certFile, both)
		}
		if reason, err = p.renewal(a, certFile, chain, spec); err != nil || reason == "" {
			return err
		}
	}
	issued, err := p.issue(a, certFile, spec, key.Public())
	if err != nil {
		return err
	}
	p.write(certFile, issued, certMode, reason)
	return nil
}

// newPair plans a new key and certificate. The key is written first: after a crash the
// next start completes a key without a certificate, but not the reverse.
func (p *plan) newPair(a *authority, certFile, keyFile string, spec leafSpec) error {
	key, keyPEM, err := generateKey()
	if err != nil {
		return err
	}
	certPEM, err := p.issue(a, certFile, spec, key.Public())
	if err != nil {
		return err
	}
	p.write(keyFile, keyPEM, keyMode, missing)
	p.write(certFile, certPEM, certMode, missing)
	return nil
}

// ensureServiceAccountKeys plans the pair of keys that signs and verifies service-account
// tokens. The public file may hold further keys, whose tokens stay valid.
func (p *plan) ensureServiceAccountKeys(keyFile, pubFile string) error {
	keyPEM, err := readOptional(keyFile)
	if err != nil {
		return err
	}
	pubPEM, err := readOptional(pubFile)
	if err != nil {
		return err
	}
	advice := fmt.Sprintf("restore it, or remove %s and %s so that both are made again, which ends all issued service-account tokens", keyFile, pubFile)
	var key crypto.Signer
	switch {
	case keyPEM == nil && pubPEM != nil:
		return newFailure(ErrBadState, nil, "%s is missing, the key of %s: %s", keyFile, pubFile, advice)
	case keyPEM == nil:
		if key, keyPEM, err = generateKey(); err != nil {
			return err
		}
		p.write(keyFile, keyPEM, keyMode, missing)
	default:
		if key, err = parseKey(keyFile, keyPEM, advice); err != nil {
			return err
		}
	}
	if pubPEM == nil {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return fmt.Errorf("encode public key: %w", err)
		}
		p.write(pubFile, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), certMode, missing)
		return nil
	}
	publics, err := keyutil.ParsePublicKeysPEM(pubPEM)
	if err != nil {
		return newFailure(ErrBadState, err, "%s holds no public key in PEM form: restore it, or remove it to have it derived from %s", pubFile, keyFile)
	}
	for _, public := range publics {
		if samePublic(key, public) {
			return nil
		}
	}
	return newFailure(ErrBadState, nil, "%s does not hold the public key of %s: restore it, or remove it to have it derived", pubFile, keyFile)
}

// generateKey returns a new private key, also in PEM form.
func generateKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return key, keyPEM, nil
}

// sign returns a new certificate, also in PEM form. The library chooses the serial
// number and the ids of keys.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, []byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parse certificate: %w", err)
	}
	certPEM, err := cert.EncodeCertificates(signed)
	if err != nil {
		return nil, nil, fmt.Errorf("encode certificate: %w", err)
	}
	return signed, certPEM, nil
}
