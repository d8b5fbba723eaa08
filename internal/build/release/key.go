package release

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// errKey is the error of a key that cannot be used. It names the permitted keys.
var errKey = errors.New("want an ECDSA P-256 or ed25519 key in PEM form, not encrypted, as `openssl genpkey -algorithm ed25519` makes it")

// ParsePrivateKey returns the key in a PEM file that is to sign a release.
func ParsePrivateKey(data []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errKey
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil && key.Curve == elliptic.P256() {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errKey
	}
	key, ok := parsed.(crypto.Signer)
	if !ok || !isPermitted(key.Public()) {
		return nil, errKey
	}
	return key, nil
}

// ParsePublicKey returns the key in a PEM file that is to verify a release.
func ParsePublicKey(data []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errKey
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil || !isPermitted(key) {
		return nil, errKey
	}
	return key, nil
}

// isPermitted reports whether a key is an ECDSA P-256 or an ed25519 key.
func isPermitted(key crypto.PublicKey) bool {
	curve, isECDSA := key.(*ecdsa.PublicKey)
	_, isEd25519 := key.(ed25519.PublicKey)
	return isEd25519 || isECDSA && curve.Curve == elliptic.P256()
}

// signer implements dsse.Signer. Its signatures are not random: ECDSA follows RFC 6979.
type signer struct{ key crypto.Signer }

func (s signer) Sign(_ context.Context, data []byte) ([]byte, error) {
	if _, ok := s.key.Public().(ed25519.PublicKey); ok {
		return s.key.Sign(nil, data, crypto.Hash(0))
	}
	sum := sha256.Sum256(data)
	return s.key.Sign(nil, sum[:], crypto.SHA256)
}

// KeyID names no key, as in sigstore's envelopes.
func (signer) KeyID() (string, error) { return "", nil }

// verifier implements dsse.Verifier.
type verifier struct{ key crypto.PublicKey }

var errSignature = errors.New("signature is by another key, or of other data")

// Verify implements dsse.Verifier.
func (v verifier) Verify(_ context.Context, data, signature []byte) error {
	sum := sha256.Sum256(data)
	switch key := v.key.(type) {
	case ed25519.PublicKey:
		if ed25519.Verify(key, data, signature) {
			return nil
		}
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(key, sum[:], signature) {
			return nil
		}
	default:
		return fmt.Errorf("key is a %T: %w", v.key, errKey)
	}
	return errSignature
}

func (verifier) KeyID() (string, error) { return "", nil }

func (v verifier) Public() crypto.PublicKey { return v.key }
