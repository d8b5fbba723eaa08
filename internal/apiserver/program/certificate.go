package program

import (
	"crypto/tls"
	"fmt"
)

// CertificateFlags name the certificate that clients see, and its key.
var CertificateFlags = [2]string{"tls-cert-file", "tls-private-key-file"}

// validateCertificate checks the user's serving certificate before anything is started.
// Kubernetes' error about a damaged one names neither the file nor the flag.
func (o *Options) validateCertificate() error {
	names := CertificateFlags
	cert, key := o.Value(names[0]), o.Value(names[1])
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return fmt.Errorf("one of --%s and --%s is missing: give both", names[0], names[1])
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("cannot use --%s=%s with --%s=%s (%w): give a certificate and its key in PEM form", names[0], cert, names[1], key, err)
	}
	return nil
}
