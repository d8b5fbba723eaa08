package tls13_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/millrace/millrace/test/support/tls13"
)

// TestKeyUpdates sends a net/http server many key updates, between requests and within
// them.
func TestKeyUpdates(t *testing.T) {
	asked := make(chan string, 100)
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer s.Close()
	raw, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var secrets tls13.Secrets
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &secrets})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	w, err := tls13.NewWriter(c.ConnectionState(), &secrets)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for range 3 {
		var records []byte
		for _, part := range []string{"GET /path", " HTTP/1.1\r\n", "Host: a\r\n\r\n"} {
			for range 5 { // crypto/tls accepts 16 key updates without data between them
				if records, err = w.AppendKeyUpdate(records); err != nil {
					t.Fatal(err)
				}
			}
			records = w.AppendData(records, []byte(part))
		}
		if _, err := raw.Write(records); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || <-asked != "/path" {
			t.Errorf("got %s, %v", resp.Status, err)
		}
	}
}
