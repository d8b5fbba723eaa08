package replica

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/millrace/millrace/test/support/harness"
)

// reader returns a function that lists config maps, and returns the status.
func reader(t *testing.T, config *rest.Config) func() int {
	client := must(rest.HTTPClientFor(config))(t)
	return func() int {
		return must(status(t.Context(), client, config.Host+"/api/v1/configmaps?resourceVersion=0"))(t)
	}
}

// endsWithin revokes a right, and measures how long it holds.
func endsWithin(t *testing.T, reads func() int, within time.Duration, revoke func() error) {
	t.Helper()
	if err := revoke(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "the end of the right", func() error {
		if code := reads(); code == http.StatusOK {
			return notYet("status %d", code)
		}
		return nil
	})
	took := time.Since(began)
	t.Logf("the right ended after %v", took)
	if took > within {
		t.Errorf("the right ended after %v, want %v at most", took, within)
	}
}

func canRead(t *testing.T, reads func() int) {
	t.Helper()
	eventually(t, "the right to read", func() error {
		if code := reads(); code != http.StatusOK {
			return notYet("status %d", code)
		}
		return nil
	})
}

// TestCredentialsEnd ends what proves a user: the pod that a token is bound to, and the
// authority that has signed a certificate.
func TestCredentialsEnd(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	const ttl = 2 * time.Second
	list := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}
	account(t, admin, "reader", nil, list)
	for source, flags := range sources(upstream) {
		replica := harness.StartReplica(t, upstream, append(flags,
			"--authentication-token-webhook-cache-ttl="+ttl.String(), "--authorization-webhook-cache-authorized-ttl="+ttl.String())...)
		t.Run(source+"/pod", func(t *testing.T) {
			t.Parallel()
			reads := reader(t, withToken(replica, t, podToken(t, admin, source)))
			canRead(t, reads)
			endsWithin(t, reads, 10*time.Second+ttl+delay, func() error {
				return admin.CoreV1().Pods("default").Delete(t.Context(), source, *metav1.NewDeleteOptions(0))
			})
		})
		t.Run(source+"/authority", func(t *testing.T) {
			t.Parallel()
			authority := newAuthority(t, source)
			trust := func(trusted bool) error { return authority.trust(t.Context(), admin, trusted) }
			if err := trust(true); err != nil {
				t.Fatal(err)
			}
			config := rest.AnonymousClientConfig(replica.Config())
			config.CertData, config.KeyData = authority.client(t, "system:serviceaccount:default:reader")
			reads := reader(t, config)
			canRead(t, reads)
			const certificateTTL = 10 * time.Second // whatever the flags say
			endsWithin(t, reads, certificateTTL+delay, func() error { return trust(false) })
		})
	}
}

// TestRefusedTokenIsNotBelieved has the upstream refuse a request with a token that a replica
// would believe for an hour more. Its next read is passed on, and refused.
func TestRefusedTokenIsNotBelieved(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	account(t, admin, "reader", nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}})
	replica := harness.StartReplica(t, upstream, "--follow=configmaps", "--authentication-token-webhook-cache-ttl=1h")
	config := withToken(replica, t, podToken(t, admin, "ends"))
	reads, client := reader(t, config), must(rest.HTTPClientFor(config))(t)
	canRead(t, reads)
	if err := admin.CoreV1().Pods("default").Delete(t.Context(), "ends", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the token at the upstream", func() error {
		resp, err := client.Post(config.Host+"/apis/authentication.k8s.io/v1/selfsubjectreviews", "application/json", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			return notYet("status %d", resp.StatusCode)
		}
		return nil
	})
	if code := reads(); code != http.StatusUnauthorized {
		t.Errorf("a read with the refused token: %d", code)
	}
}

// podToken returns a token that ends with the pod of a name, which it creates.
func podToken(t *testing.T, admin kubernetes.Interface, name string) string {
	t.Helper()
	pod := must(admin.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: "reader", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{}))(t)
	made := must(admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}, metav1.CreateOptions{}))(t)
	return made.Status.Token
}

// authority signs client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return &authority{cert: must(certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key))(t), key: key}
}

// client returns a certificate of a user, and its key.
func (a *authority) client(t *testing.T, user string) (cert, key []byte) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	signed := must(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, private.Public(), a.key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: signed}), must(keyutil.MarshalPrivateKeyToPEM(private))(t)
}

// trust adds the authority to those by which API servers behind the upstream know its
// users, or removes it.
func (a *authority) trust(ctx context.Context, admin kubernetes.Interface, trusted bool) error {
	const key = "client-ca-file"
	configMaps := admin.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	return harness.Until(waitTimeout, func() error {
		published, err := configMaps.Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil || published.Data[key] == "" {
			return notYet("authorities are not published: %v", err)
		}
		certs, err := certutil.ParseCertsPEM([]byte(published.Data[key]))
		if err != nil {
			return err
		}
		certs = slices.DeleteFunc(certs, a.cert.Equal)
		if trusted {
			certs = append(certs, a.cert)
		}
		all, err := certutil.EncodeCertificates(certs...)
		if err != nil {
			return err
		}
		published.Data[key] = string(all)
		if _, err = configMaps.Update(ctx, published, metav1.UpdateOptions{}); err != nil {
			return notYet("%v", err)
		}
		return nil
	})
}
