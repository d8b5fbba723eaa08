package datadir

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"time"
)

const (
	day = 24 * time.Hour

	authorityLife = 10 * 365 * day
	leafLife      = 365 * day
	// renewBefore is how long before its expiry a certificate is issued again.
	renewBefore = 30 * day
	// backdate is how far in the past a certificate's validity begins. It lets clients
	// whose clock is late accept a new certificate.
	backdate = 5 * time.Minute
)

// authority is a certificate authority.
type authority struct {
	certFile, keyFile string
	// certPEM is the content of certFile.
	certPEM []byte
	// certs has at least one certificate. The key belongs to the first. The others are
	// trusted too, as during the change from one authority to the next.
	certs []*x509.Certificate
	// key is nil if there is none. It is needed only to issue certificates.
	key crypto.Signer
	// fresh says that the certificate is new and has not been written yet.
	fresh bool
}

// loadAuthority reads an authority, or plans a new one if there is no certificate.
func (p *plan) loadAuthority(certFile, keyFile, name string) (*authority, error) {
	certPEM, err := readOptional(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readOptional(keyFile)
	if err != nil {
		return nil, err
	}
	a := &authority{certFile: certFile, keyFile: keyFile, certPEM: certPEM}
	if keyPEM != nil {
		if a.key, err = parseKey(keyFile, keyPEM, "restore it, or remove it, after which nothing can be issued"); err != nil {
			return nil, err
		}
	}
	if certPEM == nil {
		return a, p.newAuthority(a, name)
	}
	if a.certs, err = parseCerts(certFile, certPEM, p.restoreOrStartOver()); err != nil {
		return nil, err
	}
	if a.key != nil && !keyFits(a.key, a.certs[0]) {
		return nil, newFailure(ErrBadState, nil, "%s does not belong to %s: restore the one that does, or remove it, after which nothing can be issued", keyFile, certFile)
	}
	return a, p.judgeAuthority(a)
}

// restoreOrStartOver returns the advice for a damaged authority.
func (p *plan) restoreOrStartOver() string {
	return "restore it, or remove " + p.credentialFiles() + " so that everything is made again"
}

// judgeAuthority checks that a certificate may issue others and is valid now, and
// warns if it expires soon.
func (p *plan) judgeAuthority(a *authority) error {
	first := a.certs[0]
	switch {
	case !first.BasicConstraintsValid || !first.IsCA:
		return newFailure(ErrBadState, nil, "%s is not the certificate of an authority: %s", a.certFile, p.restoreOrStartOver())
	case p.now.After(first.NotAfter):
		return newFailure(ErrBadState, nil, "%s expired on %s: restore a valid one, or remove %s so that everything is made again", a.certFile, date(first.NotAfter), p.credentialFiles())
	case p.now.Before(first.NotBefore):
		return newFailure(ErrBadState, nil, "%s is valid only from %s: correct the clock, or %s", a.certFile, date(first.NotBefore), p.restoreOrStartOver())
	case p.now.After(first.NotAfter.Add(-renewBefore)):
		p.warn("%s expires on %s: replace it, or remove %s before that day so that everything is made again", a.certFile, date(first.NotAfter), p.credentialFiles())
	}
	return nil
}

// newAuthority plans a new certificate, and a new key unless there is one. A key
// without a certificate is left by a crash, or the certificate was lost.
func (p *plan) newAuthority(a *authority, name string) error {
	if a.key == nil {
		key, keyPEM, err := generateKey()
		if err != nil {
			return err
		}
		a.key = key
		p.write(a.keyFile, keyPEM, keyMode, missing)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             p.now.Add(-backdate),
		NotAfter:              p.now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	cert, certPEM, err := sign(template, template, a.key.Public(), a.key)
	if err != nil {
		return err
	}
	a.certs, a.certPEM, a.fresh = []*x509.Certificate{cert}, certPEM, true
	p.write(a.certFile, certPEM, certMode, missing)
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }
