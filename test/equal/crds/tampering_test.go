package crds

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestDifferencesAreSeen changes one of two equal answers, in one way at a time.
func TestDifferencesAreSeen(t *testing.T) {
	plain := `{"kind":"Widget","metadata":{"name":"a","uid":"8451e8fc-67ab-4437-a46f-12fb28a33d73","resourceVersion":"199"},"spec":{"a":[1,"x"],"b":null}}` + "\n"
	make := func(body string) *answer {
		return &answer{status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: []byte(body)}
	}
	replaced := func(old, new string) *answer {
		if !strings.Contains(plain, old) {
			t.Fatalf("no %s", old)
		}
		return make(strings.Replace(plain, old, new, 1))
	}
	status := make(plain)
	status.status = 201
	warned := make(plain)
	warned.header.Set("Warning", `299 - "old"`)
	for name, other := range map[string]*answer{
		"status":  status,
		"header":  warned,
		"value":   replaced(`"x"`, `"z"`),
		"type":    replaced(`1`, `"1"`),
		"null":    replaced(`,"b":null`, ""),
		"order":   replaced(`"a":[1,"x"],"b":null`, `"b":null,"a":[1,"x"]`),
		"newline": make(strings.TrimSpace(plain)),
		"indent":  replaced(`{"a"`, "{\n  \"a\""),
		"broken":  replaced(`}}`, ""),
		"version": replaced(`"199"`, `""`),
	} {
		if newNormaliserPair().difference([2]*answer{make(plain), other}, scope{}) == "" {
			t.Errorf("%s: no difference found", name)
		}
	}
	warnings := func(texts ...string) *answer {
		a := make(plain)
		a.header["Warning"] = texts
		return a
	}
	ip, date := `299 - "unrecognized format \"ip\""`, `299 - "unrecognized format \"day\""`
	if d := newNormaliserPair().difference([2]*answer{warnings(ip, date), warnings(date, ip)}, scope{}); d != "" {
		t.Errorf("formats in another order are reported as a difference:\n%s", d)
	}
	for _, other := range []*answer{warnings(date), warnings(ip, ip), warnings(`299 - "old"`, ip)} {
		if newNormaliserPair().difference([2]*answer{warnings(ip, `299 - "old"`), other}, scope{}) == "" {
			t.Errorf("warnings %q: no difference seen", other.header["Warning"])
		}
	}
	same := replaced(`"199"`, `"7"`)
	if d := newNormaliserPair().difference([2]*answer{make(plain), same}, scope{}); d != "" {
		t.Errorf("another resource version is reported as a difference:\n%s", d)
	}
	again := newNormaliserPair()
	_ = again.difference([2]*answer{make(plain), same}, scope{})
	if again.difference([2]*answer{make(plain), replaced(`"199"`, `"8"`)}, scope{}) == "" {
		t.Error("a write on one side alone is not reported")
	}
}

// tamperingTransport replaces a text in the answers of a server.
type tamperingTransport struct {
	http.RoundTripper
	old, new string
}

func (r tamperingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(r.old), []byte(r.new))))
	return resp, nil
}

// findTampering checks that a comparison finds the change that a tamperingTransport makes.
func (p *pair) findTampering(t *testing.T) {
	client := *p.sides[0].client
	client.Transport = tamperingTransport{client.Transport, "not found", "not here"}
	changed := *p.sides[0]
	changed.client = &client
	other := &pair{sides: [2]*side{&changed, p.sides[1]}, webhook: p.webhook}
	r := newRun(t, other, "tampered.example.com")
	var reported []string
	r.errorf = func(format string, args ...any) { reported = append(reported, fmt.Sprintf(format, args...)) }
	r.plain(&step{verb: http.MethodGet, words: []string{definitionsPath + "/none.example.com"}, options: map[string]string{}})
	if len(reported) != 1 || !strings.Contains(reported[0], "not here") {
		t.Errorf("a changed message was reported as %q", reported)
	}
}
