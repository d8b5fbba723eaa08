package datadir

import (
	"bytes"
	"crypto/x509"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigEntry is the name of our cluster and context in a kubeconfig. The name of
// our user is the certificate's common name.
const kubeconfigEntry = "millrace"

// ensureKubeconfig plans a kubeconfig with a client certificate in it, or the changes
// to an existing one. It changes only our own entries. Other clusters, users and
// contexts, and which context is current, are up to the user.
func (p *plan) ensureKubeconfig(a *authority, file, server string, spec leafSpec) error {
	data, err := readOptional(file)
	if err != nil {
		return err
	}
	if data == nil {
		return p.newKubeconfig(a, file, server, spec)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return newFailure(ErrBadState, err, "%s is not a kubeconfig: remove it to have a new one made, or restore it", file)
	}
	cluster, user := config.Clusters[kubeconfigEntry], config.AuthInfos[spec.subject.CommonName]
	if cluster == nil || user == nil || config.Contexts[kubeconfigEntry] == nil || len(user.ClientCertificateData) == 0 || len(user.ClientKeyData) == 0 {
		return newFailure(ErrBadState, nil, "%s lacks the cluster and context %q or the user %q with its certificate: remove it to have a new one made, or restore it", file, kubeconfigEntry, spec.subject.CommonName)
	}
	reason, err := p.renewUser(a, file, user, spec)
	if err != nil {
		return err
	}
	if cluster.Server != server {
		cluster.Server, reason = server, "server is now "+server
	}
	if !bytes.Equal(cluster.CertificateAuthorityData, a.certPEM) {
		cluster.CertificateAuthorityData, reason = a.certPEM, "authority changed"
	}
	if reason == "" {
		return nil
	}
	return p.writeKubeconfig(file, config, reason)
}

// renewUser issues the user's certificate again if that is necessary, and returns the
// reason.
func (p *plan) renewUser(a *authority, file string, user *clientcmdapi.AuthInfo, spec leafSpec) (string, error) {
	const remedy = "remove the file to have a new one made, or restore it"
	key, err := parseKey("client-key-data in "+file, user.ClientKeyData, remedy)
	if err != nil {
		return "", err
	}
	var chain []*x509.Certificate
	if chain, err = parseCerts("client-certificate-data in "+file, user.ClientCertificateData, remedy); err != nil {
		return "", err
	}
	if !keyFits(key, chain[0]) {
		return "", newFailure(ErrBadState, nil, "key and certificate in %s do not belong together: %s", file, remedy)
	}
	reason, err := p.renewal(a, file, chain, spec)
	if err != nil || reason == "" {
		return "", err
	}
	user.ClientCertificateData, err = p.issue(a, file, spec, key.Public())
	return reason, err
}

// newKubeconfig plans a kubeconfig with a new key and certificate.
func (p *plan) newKubeconfig(a *authority, file, server string, spec leafSpec) error {
	key, keyPEM, err := generateKey()
	if err != nil {
		return err
	}
	certPEM, err := p.issue(a, file, spec, key.Public())
	if err != nil {
		return err
	}
	user := spec.subject.CommonName
	config := clientcmdapi.NewConfig()
	config.Clusters[kubeconfigEntry] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.certPEM}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	config.Contexts[kubeconfigEntry] = &clientcmdapi.Context{Cluster: kubeconfigEntry, AuthInfo: user}
	config.CurrentContext = kubeconfigEntry
	return p.writeKubeconfig(file, config, missing)
}

func (p *plan) writeKubeconfig(file string, config *clientcmdapi.Config, reason string) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	p.write(file, data, keyMode, reason)
	return nil
}
