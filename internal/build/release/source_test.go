package release_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/build/release"
)

// TestReadSource reads a repository of two commits, of which the first is tagged.
func TestReadSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=@1767323045 +0000")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message=one")
	git("tag", "v1.0.0")
	git("commit", "--quiet", "--allow-empty", "--message=two")
	git("tag", "v1.1.0-rc.1")
	refuse := func(version, want string) {
		t.Helper()
		if _, err := release.ReadSource(t.Context(), dir, version, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("version %q: error %v, want %q", version, err, want)
		}
	}
	for _, version := range []string{"v1.1.0-rc.1", "v1.1.0"} {
		source, err := release.ReadSource(t.Context(), dir, version, false)
		check(t, err)
		if source.Revision != git("rev-parse", "HEAD") || !source.Time.Equal(created) || source.Modified {
			t.Errorf("source is %+v", source)
		}
	}
	for _, version := range []string{"1.1.0", "v1.1", "v01.1.0", "unknown", git("rev-parse", "--short", "HEAD"), "v1.1.0 -X"} {
		refuse(version, "is not of the form v1.2.3")
	}
	refuse("v1.0.0", "tag v1.0.0 is commit")
	check(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	refuse("v1.1.0", "files differ from the commit")
	if source, err := release.ReadSource(t.Context(), dir, "v1.1.0", true); err != nil || !source.Modified {
		t.Errorf("source is %+v: %v", source, err)
	}
}

// TestKeys reads keys as openssl writes them.
func TestKeys(t *testing.T) {
	t.Parallel()
	encode := func(kind string, der []byte, err error) []byte {
		check(t, err)
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	check(t, err)
	_, edwards, err := ed25519.GenerateKey(nil)
	check(t, err)
	sec1, err1 := x509.MarshalECPrivateKey(p256)
	pkcs8, err2 := x509.MarshalPKCS8PrivateKey(p256)
	ed, err3 := x509.MarshalPKCS8PrivateKey(edwards)
	for name, data := range map[string][]byte{"SEC 1": encode("EC PRIVATE KEY", sec1, err1), "PKCS 8": encode("PRIVATE KEY", pkcs8, err2), "ed25519": encode("PRIVATE KEY", ed, err3)} {
		key, err := release.ParsePrivateKey(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if _, err := release.ParsePublicKey(encode("PUBLIC KEY", der, err)); err != nil {
			t.Errorf("public key of %s: %v", name, err)
		}
	}
	large, err := x509.MarshalPKCS8PrivateKey(p384)
	for name, data := range map[string][]byte{"P-384": encode("PRIVATE KEY", large, err), "encrypted": encode("ENCRYPTED SIGSTORE PRIVATE KEY", []byte("sealed"), nil), "text": []byte("text")} {
		if _, err := release.ParsePrivateKey(data); err == nil || !strings.Contains(err.Error(), "openssl genpkey") {
			t.Errorf("%s: error %v does not say which keys there are", name, err)
		}
	}
}
