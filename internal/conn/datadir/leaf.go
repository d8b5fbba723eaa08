package datadir

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"slices"
)

// leafSpec is the content of a leaf certificate.
type leafSpec struct {
	subject  pkix.Name
	usage    x509.ExtKeyUsage
	dnsNames []string
	ips      []net.IP
}

// clientSpec returns the content of a client's certificate.
func clientSpec(name pkix.Name) leafSpec {
	return leafSpec{subject: name, usage: x509.ExtKeyUsageClientAuth}
}

// issue returns a leaf certificate for a public key, in PEM form. file is its name in
// errors.
func (p *plan) issue(a *authority, file string, spec leafSpec, public crypto.PublicKey) ([]byte, error) {
	if a.key == nil {
		return nil, newFailure(ErrBadState, nil, "cannot issue %s, the key of its authority %s is missing: restore %s, or restore a valid %s", file, a.certFile, a.keyFile, file)
	}
	parent := a.certs[0]
	template := &x509.Certificate{
		Subject:               spec.subject,
		NotBefore:             later(p.now.Add(-backdate), parent.NotBefore),
		NotAfter:              earlier(p.now.Add(leafLife), parent.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{spec.usage},
		BasicConstraintsValid: true,
		DNSNames:              spec.dnsNames,
		IPAddresses:           spec.ips,
	}
	_, certPEM, err := sign(template, parent, public, a.key)
	return certPEM, err
}

// checkIssued checks that a chain, leaf first, was issued by an authority for a use. It
// checks no date, because an expired leaf is not a damaged one.
func (p *plan) checkIssued(a *authority, file string, chain []*x509.Certificate, spec leafSpec) error {
	switch {
	case !a.issued(chain) && a.fresh:
		return newFailure(ErrBadState, nil, "%s is missing, and %s was issued by it: restore %s and %s, or remove %s so that everything is made again", a.certFile, file, a.certFile, a.keyFile, p.credentialFiles())
	case !a.issued(chain):
		return newFailure(ErrBadState, nil, "%s was not issued by %s: remove it to have a new one made, or restore the authority that issued it", file, a.certFile)
	case !allows(chain[0], spec.usage):
		return newFailure(ErrBadState, nil, "%s was issued for another use: remove it to have a new one made, or restore it", file)
	}
	return nil
}

// issued reports whether the signatures of a chain lead to one of the authority's
// certificates.
func (a *authority) issued(chain []*x509.Certificate) bool {
	for i, cert := range chain {
		if slices.ContainsFunc(a.certs, func(ca *x509.Certificate) bool { return signedBy(cert, ca) }) {
			return true
		}
		if i+1 == len(chain) || !signedBy(cert, chain[i+1]) {
			return false
		}
	}
	return false
}

func signedBy(cert, parent *x509.Certificate) bool {
	return bytes.Equal(cert.RawIssuer, parent.RawSubject) && cert.CheckSignatureFrom(parent) == nil
}

// allows reports whether a certificate may be used for something. Without a list of
// uses it may be used for everything, as verifiers have it.
func allows(cert *x509.Certificate, usage x509.ExtKeyUsage) bool {
	return len(cert.ExtKeyUsage)+len(cert.UnknownExtKeyUsage) == 0 ||
		slices.Contains(cert.ExtKeyUsage, usage) || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// verdict says whether a leaf has to be issued again.
type verdict struct {
	reason string // empty if the leaf can be kept
	urgent bool   // the leaf cannot be used as it is
}

// judgeLeaf decides whether a leaf has to be issued again. An error means that it is
// damaged, or made for something else.
func (p *plan) judgeLeaf(a *authority, file string, chain []*x509.Certificate, spec leafSpec) (verdict, error) {
	if err := p.checkIssued(a, file, chain, spec); err != nil {
		return verdict{}, err
	}
	leaf := chain[0]
	if spec.usage == x509.ExtKeyUsageClientAuth && leaf.Subject.CommonName != spec.subject.CommonName {
		return verdict{}, newFailure(ErrBadState, nil, "%s is for %q instead of %q: remove it to have a new one made", file, leaf.Subject.CommonName, spec.subject.CommonName)
	}
	if p.now.Before(leaf.NotBefore) {
		return verdict{}, newFailure(ErrBadState, nil, "%s is valid only from %s: correct the clock, or remove it to have a new one made", file, date(leaf.NotBefore))
	}
	if p.now.After(leaf.NotAfter) {
		return verdict{reason: "expired on " + date(leaf.NotAfter), urgent: true}, nil
	}
	if name := missingName(leaf, spec); name != "" {
		return verdict{reason: "does not name " + name, urgent: true}, nil
	}
	// A leaf that expires with its authority is kept: a new one would expire with it too.
	if p.now.After(leaf.NotAfter.Add(-renewBefore)) && leaf.NotAfter.Before(a.certs[0].NotAfter) {
		return verdict{reason: "expires on " + date(leaf.NotAfter)}, nil
	}
	return verdict{}, nil
}

// renewal returns the reason to issue a leaf again, or the empty string to keep it. A
// leaf that still works is kept if the authority's key is missing.
func (p *plan) renewal(a *authority, file string, chain []*x509.Certificate, spec leafSpec) (string, error) {
	v, err := p.judgeLeaf(a, file, chain, spec)
	switch {
	case err != nil:
		return "", err
	case v.reason == "" || a.key != nil:
		return v.reason, nil
	case v.urgent:
		return "", newFailure(ErrBadState, nil, "%s %s and cannot be issued again, the key of its authority is missing: restore %s, or restore a valid %s", file, v.reason, a.keyFile, file)
	}
	p.warn("%s %s and cannot be issued again: restore %s", file, v.reason, a.keyFile)
	return "", nil
}

// missingName returns a name of the spec that a leaf lacks, or the empty string.
func missingName(leaf *x509.Certificate, spec leafSpec) string {
	have := make(map[string]bool)
	for _, name := range leaf.DNSNames {
		have[name] = true
	}
	for _, ip := range leaf.IPAddresses {
		have[ip.String()] = true
	}
	for _, name := range spec.dnsNames {
		if !have[name] {
			return name
		}
	}
	for _, ip := range spec.ips {
		if !have[ip.String()] {
			return ip.String()
		}
	}
	return ""
}
