package right_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/replica/right"
)

// TestTokenEnds ends a good token. It is known for as long as answers hold, or until the
// upstream has refused a request with it.
func TestTokenEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFleetTest(t, time.Millisecond, right.ReviewConfig{})
		for _, token := range []string{"good-a", "good-b"} {
			if !r.isUser(t, token, "10.0.0.1:1") || !r.isUser(t, token, "10.0.0.1:1") {
				t.Errorf("%s is not known", token)
			}
			r.set(func() { r.mu.ended[token] = true })
			if !r.isUser(t, token, "10.0.0.1:1") {
				t.Errorf("the upstream was asked about %s at once", token)
			}
		}
		for _, header := range []string{"", "Basic x", "Bearer", "Bearer good-b-not", "bearer  good-a"} {
			if r.reviews.Recheck(header); !r.isUser(t, "good-a", "10.0.0.1:1") || !r.isUser(t, "good-b", "10.0.0.1:1") {
				t.Errorf("%q ends a token", header)
			}
		}
		if r.reviews.Recheck(" bearer good-a"); r.isUser(t, "good-a", "10.0.0.1:1") {
			t.Error("a token that the upstream has refused is known")
		}
		if !r.isUser(t, "good-b", "10.0.0.1:1") {
			t.Error("another token is not known")
		}
		<-time.After(answersHold + time.Second)
		if r.isUser(t, "good-b", "10.0.0.1:1") {
			t.Error("a token is known for longer than answers hold")
		}
		before, _ := r.loads()
		if r.isUser(t, "good-b", "10.0.0.1:1") {
			t.Error("a token that has ended is known")
		}
		if after, _ := r.loads(); after.asked != before.asked {
			t.Error("the upstream is asked about a bad token again and again")
		}
		r.set(func() { clear(r.mu.ended) })
		<-time.After(answersHold + time.Second)
		if !r.isUser(t, "good-b", "10.0.0.1:1") {
			t.Error("a token is bad for ever")
		}
	})
}

// TestUpstreamIsAway: the upstream gives no answers, and then again. Nothing is held against a
// token or an address.
func TestUpstreamIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFleetTest(t, time.Millisecond, right.ReviewConfig{})
		r.set(func() { r.mu.away = true })
		for i := range 1000 {
			if r.isUser(t, fmt.Sprintf("good-%d", i), "10.0.0.1:1") {
				t.Error("a token is known without an answer")
			}
		}
		r.set(func() { r.mu.away = false })
		for i := range 1000 {
			if !r.isUser(t, fmt.Sprintf("good-%d", i), "10.0.0.1:1") {
				t.Errorf("token %d is not known", i)
			}
		}
	})
}

// TestUpstreamHangs lets each review take an hour. Requests are given up in order of their
// places, and none waits for longer than the bound.
func TestUpstreamHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newFleetTest(t, time.Hour, right.ReviewConfig{InFlight: 2, Waiting: 10, Wait: time.Minute})
		began := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				known := r.isUser(t, fmt.Sprintf("good-%d", i), fmt.Sprintf("10.0.0.%d:1", i%7))
				if took := time.Since(began); known != (took == time.Hour) || !known && took > time.Minute {
					t.Errorf("known: %v, after %v", known, took)
				}
			})
		}
		all.Wait()
		if tokens, _ := r.loads(); tokens.asked != 2 {
			t.Errorf("the upstream was asked: %+v", tokens)
		}
		if counts := r.omitted(t); counts["queue"] != 8 || counts["time"] != 10 {
			t.Errorf("not asked: %v", counts)
		}
	})
}

// TestTokenOfWebSocket sends the token as a protocol's name, as browsers do.
func TestTokenOfWebSocket(t *testing.T) {
	t.Parallel()
	r := newFleetTest(t, 0, right.ReviewConfig{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://replica/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Protocol": {"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.Z29vZC1h"},
	}
	if response, ok, err := r.tokens.AuthenticateRequest(req); !ok || response.User.GetName() != "a" {
		t.Errorf("%+v, %v", response, err)
	}
}
