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
	// renewBefore is how long before its end a certificate is issued again.
	renewBefore = 30 * day
	// backdate lets clients whose clock is late accept a certificate at once.
	backdate = 5 * time.Minute
)

// authority is a certificate authority. Its key may be absent, and is needed
// only to issue something.
type authority struct {
	certFile, keyFile string
	certPEM           []byte
	// certs are never empty; the key belongs to the first. Further ones are
	// trusted too, as in the change from one authority to the next.
	certs []*x509.Certificate
	key   crypto.Signer // nil when there is none
	fresh bool          // the certificate is about to be made
}

// authority reads an authority or plans a new one.
func (p *plan) authority(certFile, keyFile, name string) (*authority, error) {
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
		return nil, fail(ErrBadState, nil, "%s does not belong to %s: restore the one that does, or remove it, after which nothing can be issued", keyFile, certFile)
	}
	return a, p.judgeAuthority(a)
}

func (p *plan) restoreOrStartOver() string {
	return "restore it, or remove " + p.all() + " to have everything made anew"
}

func (p *plan) judgeAuthority(a *authority) error {
	first := a.certs[0]
	switch {
	case !first.BasicConstraintsValid || !first.IsCA:
		return fail(ErrBadState, nil, "%s is not the certificate of an authority: %s", a.certFile, p.restoreOrStartOver())
	case p.now.After(first.NotAfter):
		return fail(ErrBadState, nil, "%s expired on %s: restore a valid one, or remove %s to have everything made anew", a.certFile, date(first.NotAfter), p.all())
	case p.now.Before(first.NotBefore):
		return fail(ErrBadState, nil, "%s is valid only from %s: correct the clock, or %s", a.certFile, date(first.NotBefore), p.restoreOrStartOver())
	case p.now.After(first.NotAfter.Add(-renewBefore)):
		p.warn("%s expires on %s: replace it, or remove %s before that day to have everything made anew", a.certFile, date(first.NotAfter), p.all())
	}
	return nil
}

// newAuthority plans a new certificate, and a key unless there is one, which
// then is what a crash left of the last attempt or of a lost certificate.
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
