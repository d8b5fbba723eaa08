package encode

import (
	"net/http"
	"strings"
	"testing"
)

// TestNegotiate negotiates answers, which are offered with zstd and gzip, and watches, which
// are offered with gzip only.
func TestNegotiate(t *testing.T) {
	for _, c := range []struct {
		accepted     string
		answer, only Encoding
	}{
		{"", Identity, Identity},
		{"gzip", Gzip, Gzip},
		{"zstd", Zstd, Identity},
		{"GZip", Gzip, Gzip},
		{" \tgzip\t ", Gzip, Gzip},
		{"gzip, deflate", Gzip, Gzip},
		{"deflate,  gzip ,br", Gzip, Gzip},
		{",, gzip,", Gzip, Gzip},
		{"identity", Identity, Identity},
		{"br, deflate", Identity, Identity},
		// What clients send: httpx and aiohttp, browsers, curl --compressed, Ruby.
		{"gzip, deflate, br, zstd", Zstd, Gzip},
		{"deflate, gzip, br, zstd", Zstd, Gzip},
		{"gzip;q=1.0,deflate;q=0.6,identity;q=0.3", Gzip, Gzip},
		{"gzip,deflate,*;q=0.1", Gzip, Gzip},
		// Weights decide. With equal weights the server prefers zstd.
		{"zstd;q=0.5, gzip", Gzip, Gzip},
		{"gzip;q=0.5, zstd;q=0.5", Zstd, Gzip},
		{"gzip;q=0.501, zstd;q=0.5", Gzip, Gzip},
		{"zstd;q=0.9, gzip;q=0.899", Zstd, Gzip},
		{"gzip;q=0.001", Gzip, Gzip},
		{"gzip ; q=0.5", Gzip, Gzip},
		{"gzip;Q=0.5", Gzip, Gzip},
		{"gzip;q=1.", Gzip, Gzip},
		{"gzip;q=1.000", Gzip, Gzip},
		{"identity, gzip", Gzip, Gzip},
		{"identity;q=0.5, gzip;q=0.5", Gzip, Gzip},
		{"identity, gzip;q=0.9", Identity, Identity},
		{"identity;q=0.7, gzip;q=0.6, zstd;q=0.8", Zstd, Identity},
		{"identity;q=0, gzip", Gzip, Gzip},
		// A weight of zero forbids.
		{"gzip;q=0", Identity, Identity},
		{"gzip;q=0.0", Identity, Identity},
		{"gzip;q=0.000", Identity, Identity},
		{"gzip; q=0, zstd", Zstd, Identity},
		{"zstd;q=0, gzip", Gzip, Gzip},
		{"identity;q=1, gzip;q=0", Identity, Identity},
		{"gzip, gzip;q=0", Identity, Identity},
		{"gzip;q=0, *", Identity, Identity},
		// A coding that is not named is not chosen.
		{"*", Identity, Identity},
		{"*;q=1", Identity, Identity},
		{"identity;q=0", Identity, Identity},
		{"identity;q=0, *", Identity, Identity},
		{"*;q=0", Identity, Identity},
		{"*;q=0, gzip", Gzip, Gzip},
		{"gzip;q=0.5, *", Identity, Identity},
		{"gzip;q=0.5, *, identity;q=0.5", Gzip, Gzip},
		{"x-gzip", Identity, Identity},
		{"notgzip", Identity, Identity},
		{"gzip2", Identity, Identity},
		{"gzip deflate", Identity, Identity},
		{"gzip/1", Identity, Identity},
		{"\"gzip\"", Identity, Identity},
		// Elements that do not follow the grammar are ignored.
		{"gzip;", Identity, Identity},
		{"gzip;q", Identity, Identity},
		{"gzip;q=", Identity, Identity},
		{"gzip;q=x", Identity, Identity},
		{"gzip;q=.5", Identity, Identity},
		{"gzip;q=-1", Identity, Identity},
		{"gzip;q=2", Identity, Identity},
		{"gzip;q=1.001", Identity, Identity},
		{"gzip;q=0.1234", Identity, Identity},
		{"gzip;q=00", Identity, Identity},
		{"gzip;q=1e0", Identity, Identity},
		{"gzip;level=9", Identity, Identity},
		{"gzip;q=1;level=9", Identity, Identity},
		{"gzip;q=x, gzip;q=0.3", Gzip, Gzip},
	} {
		header := http.Header{"Accept-Encoding": {c.accepted}}
		if got := Negotiate(header, Zstd, Gzip); got != c.answer {
			t.Errorf("%q: %q, want %q", c.accepted, got, c.answer)
		}
		if got := Negotiate(header, Gzip); got != c.only {
			t.Errorf("%q of gzip alone: %q, want %q", c.accepted, got, c.only)
		}
		// The elements may be spread over several header lines.
		spread := http.Header{"Accept-Encoding": strings.Split(c.accepted, ",")}
		if got := Negotiate(spread, Zstd, Gzip); got != c.answer {
			t.Errorf("%q: %q, want %q", spread["Accept-Encoding"], got, c.answer)
		}
	}
	if got := Negotiate(nil, Zstd, Gzip); got != Identity {
		t.Errorf("without a header: %q", got)
	}
}

func TestNegotiateAllocatesNothing(t *testing.T) {
	for _, accepted := range []string{"", "gzip", "gzip, deflate, br, zstd", "gzip;q=1.0,deflate;q=0.6,identity;q=0.3"} {
		header := http.Header{"Accept-Encoding": {accepted}}
		if n := testing.AllocsPerRun(100, func() { Negotiate(header, Zstd, Gzip) }); n > 0 {
			t.Errorf("%q: %v allocations", accepted, n)
		}
	}
}

func BenchmarkNegotiate(b *testing.B) {
	for _, accepted := range []string{"gzip", "gzip, deflate, br, zstd"} {
		b.Run(accepted, func(b *testing.B) {
			header := http.Header{"Accept-Encoding": {accepted}}
			b.ReportAllocs()
			for b.Loop() {
				Negotiate(header, Zstd, Gzip)
			}
		})
	}
}
