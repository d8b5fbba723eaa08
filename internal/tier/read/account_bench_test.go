package read_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/account/usage"
)

// discardWriter is a client that takes all bytes.
type discardWriter struct{ header http.Header }

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (d *discardWriter) WriteHeader(int)             {}

// BenchmarkAccounts answers requests without accounts and with them.
func BenchmarkAccounts(b *testing.B) {
	factory := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, target := range []string{objectPath, objectPath + "?resourceVersion=0", listPath + "?limit=1&resourceVersion=0", listPath + "?labelSelector=name%3D0001"} {
		req := httptest.NewRequest(http.MethodGet, target, nil)
		req.Header.Set("User-Agent", "kubelet/v1.36.3 (linux/amd64) kubernetes/abc")
		info, err := factory.NewRequestInfo(req)
		if err != nil {
			b.Fatal(err)
		}
		ctx := request.WithUser(request.WithRequestInfo(req.Context(), info), &user.DefaultInfo{Name: "system:node:node-1"})
		req = req.WithContext(ctx)
		for _, accounts := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/accounts=%v", target, accounts), func(b *testing.B) {
				env := newTestTier(b)
				env.load(b, append(keysOf(2000), "one/a")...)
				if accounts {
					env.tier.SetAccounts(usage.NewAccounts(usage.Config{}), nil)
				}
				b.ReportAllocs()
				for b.Loop() {
					env.handler.ServeHTTP(&discardWriter{header: http.Header{}}, req)
				}
			})
		}
	}
}
