package differential

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	componentversion "k8s.io/component-base/version"

	"github.com/millrace/millrace/test/harness"
)

// startNewer stands in front of a server and lets it seem to be of the minor version behind
// this program's: it says so, and its config maps have a field in JSON that this program's types lack.
// Users keep their certificates and tokens.
func startNewer(t *testing.T, s *harness.Server) *harness.Server {
	t.Helper()
	pki := filepath.Join(s.DataDir, "pki")
	certificate := func(name string) tls.Certificate {
		made, err := tls.LoadX509KeyPair(filepath.Join(pki, name+".crt"), filepath.Join(pki, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	roots, clients := authorities(t, pki, "ca.crt"), authorities(t, pki, "ca.crt", "front-proxy-ca.crt")
	transport := func(certificates ...tls.Certificate) *http.Transport {
		made := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}, DisableCompression: true, ForceAttemptHTTP2: true,
		}
		t.Cleanup(made.CloseIdleConnections)
		return made
	}
	backend, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := certificate("front-proxy-client")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(backend)
			r.Out.URL.RawQuery = r.In.URL.RawQuery // also what does not parse
			nameUser(r)
		},
		Transport:      namedTransport{named: transport(trusted), others: transport()},
		FlushInterval:  -1,
		ModifyResponse: renew,
		ErrorLog:       log.New(io.Discard, "", 0), // clients end watches
	}
	front := httptest.NewUnstartedServer(proxy)
	front.TLS = &tls.Config{Certificates: []tls.Certificate{certificate("apiserver")}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients}
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)
	return s.At(front.URL)
}

func authorities(t *testing.T, pki string, names ...string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil || !pool.AppendCertsFromPEM(content) {
			t.Fatalf("read authority %s: %v", name, err)
		}
	}
	return pool
}

const userHeader = "X-Remote-User"

// nameUser names the user of a client certificate in headers. Those of another front proxy
// stay.
func nameUser(r *httputil.ProxyRequest) {
	if given := r.In.TLS.PeerCertificates; len(given) > 0 && given[0].Subject.CommonName != "front-proxy-client" {
		r.Out.Header.Set(userHeader, given[0].Subject.CommonName)
		r.Out.Header["X-Remote-Group"] = given[0].Subject.Organization
	}
}

// namedTransport sends requests with a user in headers over connections that are trusted
// with it, and others over connections without a certificate.
type namedTransport struct{ named, others http.RoundTripper }

func (n namedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get(userHeader) != "" {
		return n.named.RoundTrip(req)
	}
	return n.others.RoundTrip(req)
}

// minorVersion is in the answer to /version.
var minorVersion = regexp.MustCompile(`"minor": "\d+"`)

// novelty is the field of config maps that no type here has.
const novelty = `"novelty":{"of":["a later","version"]},`

// renew edits an answer.
func renew(resp *http.Response) error {
	path := resp.Request.URL.Path
	edit := func(line []byte) []byte {
		return bytes.ReplaceAll(line, []byte(`"data":{`), []byte(novelty+`"data":{`))
	}
	switch {
	case path == "/version":
		edit = func(line []byte) []byte {
			own := utilversion.MustParse(componentversion.DefaultKubeBinaryVersion)
			return minorVersion.ReplaceAll(line, fmt.Appendf(nil, `"minor": "%d"`, own.Minor()+1))
		}
	case !strings.Contains(path, "/configmaps") || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"):
		return nil
	}
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	from, packed := resp.Body, resp.Header.Get("Content-Encoding") == "gzip"
	in, out := io.Pipe()
	go func() {
		_ = out.CloseWithError(copyLines(out, from, edit, packed))
		_ = from.Close()
	}()
	resp.Body = in
	return nil
}

// copyLines copies each line when it comes, edited. The lines may be packed with gzip.
func copyLines(to io.Writer, from io.Reader, edit func([]byte) []byte, packed bool) error {
	flush := func() error { return nil }
	if packed {
		plain, err := gzip.NewReader(from)
		if err != nil {
			return err
		}
		w := gzip.NewWriter(to)
		defer w.Close()
		from, to, flush = plain, w, w.Flush
	}
	lines := bufio.NewReader(from)
	for {
		line, readErr := lines.ReadBytes('\n')
		if _, err := to.Write(edit(line)); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
		if readErr == io.EOF {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}
