package auditlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const sampleLine = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"5c1a1c5e-1c9b-4d0a-9d51-0a6d1ec4f0a7","stage":"ResponseComplete","requestURI":"/api/v1/pods?limit=500\u0026resourceVersion=0","verb":"list","user":{"username":"system:serviceaccount:mon:agent","uid":"1","groups":["system:serviceaccounts","system:authenticated"],"extra":{"authentication.kubernetes.io/node-name":["n1"],"authentication.kubernetes.io/pod-name":["agent-x7"]}},"sourceIPs":["10.1.2.3","10.0.0.9"],"userAgent":"agent/v1.0 (linux/amd64) kubernetes/$Format","objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-26T10:00:00.123456Z","stageTimestamp":"2026-11-26T10:00:00.223456Z","annotations":{"authorization.k8s.io/decision":"allow"}}`

// decodedEvent is what encoding/json reads of an event.
type decodedEvent struct {
	Stage      string         `json:"stage"`
	Verb       string         `json:"verb"`
	RequestURI string         `json:"requestURI"`
	UserAgent  string         `json:"userAgent"`
	User       decodedUser    `json:"user"`
	As         *decodedUser   `json:"impersonatedUser"`
	SourceIPs  []string       `json:"sourceIPs"`
	Status     *decodedStatus `json:"responseStatus"`
	Received   string         `json:"requestReceivedTimestamp"`
	Staged     string         `json:"stageTimestamp"`
}

type decodedUser struct {
	Username string              `json:"username"`
	Extra    map[string][]string `json:"extra"`
}

type decodedStatus struct {
	Code int `json:"code"`
}

func last(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[len(s)-1]
}

func micros(text string) int64 {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0
	}
	return t.UnixMicro()
}

// summary is a comparable form of an event.
func (e *Event) summary() string {
	return fmt.Sprintf("%q %q %q %q %q %q %q %q %d %d %d", e.Stage, e.Verb, e.URI, e.User, e.UserAgent, e.Pod, e.Node, e.Address, e.Code, e.Received, e.StageReached)
}

func (d *decodedEvent) summary() string {
	user, code := d.User, 0
	if d.As != nil {
		user = *d.As
	}
	if d.Status != nil {
		code = d.Status.Code
	}
	return fmt.Sprintf("%q %q %q %q %q %q %q %q %d %d %d", d.Stage, d.Verb, d.RequestURI, user.Username, d.UserAgent,
		last(user.Extra["authentication.kubernetes.io/pod-name"]), last(user.Extra["authentication.kubernetes.io/node-name"]), last(d.SourceIPs), code, micros(d.Received), micros(d.Staged))
}

// compare fails the test unless the scanner and encoding/json read the same.
func compare(t *testing.T, line []byte) {
	t.Helper()
	var want decodedEvent
	if json.Unmarshal(line, &want) != nil || want.Stage == "" {
		return
	}
	s := scanner{eventFields: WrapperEvents.fields()}
	if n, _, ok := s.scanObject(line); !ok || len(bytes.TrimSpace(line[n:])) > 0 && s.list == "" {
		t.Fatalf("%s: the first %d bytes are consumed, %v", line, n, ok)
	}
	if got := s.event.summary(); s.list == "" && got != want.summary() {
		t.Errorf("%s\ngot  %s\nwant %s", line, got, want.summary())
	}
}

func TestScanLikeEncodingJSON(t *testing.T) {
	for _, line := range []string{
		sampleLine,
		`{"stage":"Panic"}`,
		` { "stage" : "ResponseStarted" , "sourceIPs" : [ ] , "user" : null , "responseStatus" : null } `,
		`{"stage":"ResponseComplete","user":{"username":"a\"b\\\\","extra":{"x":["}{]["]}},"verb":"get"}`,
		`{"stage":"ResponseComplete","impersonatedUser":{"username":"as"},"user":{"username":"me","extra":{"authentication.kubernetes.io/pod-name":["p"]}}}`,
		`{"user":{"username":"me","extra":{"authentication.kubernetes.io/pod-name":["p"]}},"impersonatedUser":{"username":"as"},"stage":"ResponseComplete"}`,
		`{"stage":"ResponseComplete","userAgent":"\u00e9\ud83d\ude00\ud83d x\/\t","requestReceivedTimestamp":"2024-02-29T23:59:59.999999Z","stageTimestamp":"2025-03-01T00:00:00+02:00"}`,
		`{"stage":"ResponseComplete","requestObject":{"a":[1,2,{"b":"\\"}],"stage":"x"},"responseStatus":{"code":410,"details":{"code":1}}}`,
	} {
		compare(t, []byte(line))
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(sampleLine))
	f.Add([]byte(`{"stage":"x","sourceIPs":["a"],"user":{"username":"\u0041"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var s scanner
		s.scanObject(line)
		ParseURI(s.event.URI)
		// encoding/json ignores the case of names, merges repeated ones, and replaces what is no UTF-8.
		// API servers write none of these.
		if !utf8.Valid(line) || bytes.Contains(line, []byte("null")) || repeatsNames(line) {
			return
		}
		compare(t, line)
	})
}

// repeatsNames reports whether an object has a name twice, ignoring case, or escaped.
func repeatsNames(line []byte) bool {
	if !json.Valid(line) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(line))
	var walk func() bool
	walk = func() bool {
		token, err := d.Token()
		delim, nested := token.(json.Delim)
		if err != nil || !nested {
			return err != nil
		}
		seen := map[string]bool{}
		for d.More() {
			if delim == '{' {
				name, _ := d.Token()
				folded := strings.ToLower(strings.ToUpper(name.(string)))
				if seen[folded] || folded == name && strings.ContainsAny(name.(string), "\u017f\u212a") || name != folded && knownFolded[folded] && !knownNames[name.(string)] {
					return true
				}
				seen[folded] = true
			}
			if walk() {
				return true
			}
		}
		_, err = d.Token()
		return err != nil
	}
	return walk()
}

var knownNames, knownFolded = func() (map[string]bool, map[string]bool) {
	names, folded := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"stage", "verb", "requestURI", "userAgent", "user", "impersonatedUser", "sourceIPs", "responseStatus", "requestReceivedTimestamp", "stageTimestamp", "username", "extra", "code"} {
		names[name], folded[strings.ToLower(name)] = true, true
	}
	return names, folded
}()

func TestResponseBytes(t *testing.T) {
	line := strings.Replace(sampleLine, `"annotations"`, `"responseObject":{"kind":"PodList","items":[]},"annotations"`, 1)
	events, _ := readEvents(t, line, Options{})
	if len(events) != 1 || events[0].ResponseBytes != len(`{"kind":"PodList","items":[]}`) {
		t.Fatalf("got %+v", events)
	}
}

func BenchmarkRead(b *testing.B) {
	text := strings.Repeat(sampleLine+"\n", 10_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r := newReader(strings.NewReader(text), Options{}, func(*Event) {})
		r.readAll()
	}
}
