package openapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// headers returns the headers that clients see. Of entity tags and dates it says only
// that they are there.
func headers(w *httptest.ResponseRecorder) map[string]string {
	found := map[string]string{}
	for name, values := range w.Result().Header {
		switch name {
		case "Etag", "Last-Modified", "Expires", "Location":
			found[name] = "is there"
		case "Audit-Id":
		default:
			found[name] = strings.Join(values, "|")
		}
	}
	return found
}

// TestNegotiation sends the same requests to both, in all ways that clients have found.
func TestNegotiation(t *testing.T) {
	p := newPair(t, corpus(t)[:3], newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
	eventually(t, p.wrong)
	accepts := []string{
		"", "*/*", "application/json", "application/*", "text/html", "text/html,*/*;q=0.1", "application/yaml", "nonsense", ";;", "*",
		"application/json;q=0.1,application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
		"application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
		"application/com.github.proto-openapi.spec.v3.v1.0+protobuf", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf, application/json",
		"application/json;as=Table;q=0.5", "application/json;q=0", "text/*",
	}
	more := [][]string{
		{}, {"Accept-Encoding", "gzip"}, {"Accept-Encoding", "gzip;q=0"}, {"Accept-Encoding", "deflate, GZIP;q=0.5"}, {"Accept-Encoding", "gzip;q=x"},
		{"Accept-Encoding", "*"}, {"Accept-Encoding", "x-gzip, notgzip"}, {"Accept-Encoding", "gzip;q=1.0,deflate;q=0.6,identity;q=0.3"}, {"Accept-Encoding", "gzip, deflate, br, zstd"},
		{"Range", "bytes=10-19"}, {"Range", "bytes=10-19", "Accept-Encoding", "gzip"}, {"Range", "bytes=99999999-"},
		{"If-None-Match", "*"}, {"If-None-Match", `"other"`}, {"If-None-Match", "*", "Accept-Encoding", "gzip"}, {"If-Match", `"other"`},
		{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"}, {"If-Modified-Since", "Fri, 01 Jan 2010 00:00:00 GMT"},
	}
	paths := []string{
		"/openapi/v2", "/openapi/v2/", "/openapi/v3", "/openapi/v3/", "/openapi/v3/apis/plain.example.com/v1", "/openapi/v3/apis/apps/v1",
		"/openapi/v3/apis/nothing/v1", "/openapi/v3/apis/plain.example.com", "/openapi/v3/apis/plain.example.com/v1?hash=old",
		"/openapi/v3/apis/plain.example.com/v1/", "/openapi/v4",
	}
	for _, path := range paths {
		for _, accept := range accepts {
			for _, extra := range more {
				header := append([]string{"Accept", accept}, extra...)
				if accept == "" {
					header = extra
				}
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
					want, got := p.both(method, path, header)
					name := method + " " + path + " " + strings.Join(header, " ")
					if want.Code != got.Code {
						t.Errorf("%s: status %d, want %d", name, got.Code, want.Code)
						continue
					}
					compareHeaders(t, name, headers(want), headers(got))
				}
			}
		}
	}
}

// TestPreferredIdentity sees that a client that prefers no coding gets none. Kubernetes
// looks at the weight of gzip alone.
func TestPreferredIdentity(t *testing.T) {
	server := newServer(t, newCatalog(corpus(t)...), aggregator(), newBuiltin("extensions", "definitions", "Definition"))
	h := server.Wrap(http.NotFoundHandler())
	for accepted, coding := range map[string]string{"identity, gzip;q=0.5": "", "identity;q=0.5, gzip;q=0.5": "gzip", "gzip, gzip;q=0": "", "gzip;q=0, gzip": ""} {
		if got := get(h, "/openapi/v2", "Accept-Encoding", accepted).Header().Get("Content-Encoding"); got != coding {
			t.Errorf("%q: %q, want %q", accepted, got, coding)
		}
	}
}

func (p *pair) both(method, path string, header []string) (want, got *httptest.ResponseRecorder) {
	for i, h := range []http.Handler{p.upstream, p.ours} {
		r := httptest.NewRequest(method, path, nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if i == 0 {
			want = w
		} else {
			got = w
		}
	}
	return want, got
}

func compareHeaders(t *testing.T, name string, want, got map[string]string) {
	t.Helper()
	for _, each := range []map[string]string{want, got} {
		// Kubernetes escapes more in v3 than it must, and orders protobuf otherwise.
		if strings.Contains(each["Content-Type"], "protobuf") || strings.Contains(name, " /openapi/v3") {
			delete(each, "Content-Length")
		}
		delete(each, "Content-Range")
	}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("%s: %s is %q, want %q", name, key, got[key], want[key])
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: header %s: %q too many", name, key, got[key])
		}
	}
}

func TestGzipIsThePlainDocument(t *testing.T) {
	server := newServer(t, newCatalog(corpus(t)...), aggregator(), newBuiltin("extensions", "definitions", "Definition"))
	h := server.Wrap(http.NotFoundHandler())
	for _, accept := range []string{"application/json", proto} {
		plain := get(h, "/openapi/v2", "Accept", accept).Body.Bytes()
		packed := get(h, "/openapi/v2", "Accept", accept, "Accept-Encoding", "gzip")
		if packed.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("not compressed: %v", packed.Header())
		}
		r, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(unpacked) != string(plain) {
			t.Errorf("%s: unpacked %d bytes differ from %d plain ones", accept, len(unpacked), len(plain))
		}
		part := get(h, "/openapi/v2", "Accept", accept, "Range", "bytes=1000-150000")
		if want := string(plain[1000:min(150001, len(plain))]); part.Body.String() != want {
			t.Errorf("%s: a range is %d bytes, want %d of the whole", accept, part.Body.Len(), len(want))
		}
	}
}
