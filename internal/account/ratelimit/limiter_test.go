package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/account/ratelimit"
)

// TestLimiter takes all tokens of a client at once, gives one back, and takes what comes in a
// second.
func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.New(ratelimit.Config{Rate: 10, Burst: 30, Buckets: 1})
		take := func() (n int) {
			for {
				if _, ok := l.Take("a"); !ok {
					return n
				}
				n++
			}
		}
		if n := take(); n != 30 {
			t.Errorf("%d tokens at once", n)
		}
		if l.Has("a") {
			t.Error("there is a token behind the last")
		}
		if spent, ok := l.Take("a"); ok || spent != 30 {
			t.Errorf("%v tokens are spent, and another one: %v", spent, ok)
		}
		l.Return("a")
		if !l.Has("a") || !l.Has("a") {
			t.Error("there is no token, though one was given back")
		}
		if n := take(); n != 1 {
			t.Errorf("%d tokens after one was given back", n)
		}
		<-time.After(time.Second)
		if n := take(); n != 10 {
			t.Errorf("%d tokens after a second", n)
		}
		<-time.After(time.Hour)
		l.Return("a")
		if n := take(); n != 30 {
			t.Errorf("%d tokens after an hour", n)
		}
	})
}

// TestClientsHaveTheirOwnTokens gives two clients buckets, of so many that they share none.
func TestClientsHaveTheirOwnTokens(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Config{Rate: 1, Burst: 1, Buckets: 1 << 20})
	for _, client := range []string{"a", "b"} {
		if _, ok := l.Take(client); !ok {
			t.Errorf("%s has no token", client)
		}
	}
}

func TestClientOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"10.0.0.1:4711": "10.0.0.1", "10.0.0.1": "10.0.0.1", "[::ffff:10.0.0.1]:80": "10.0.0.1",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "2001:db8:1:2::9": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
		"": "", "@": "@",
	} {
		if client := ratelimit.ClientOf(remote); client != want {
			t.Errorf("the client of %q is %q, not %q", remote, client, want)
		}
	}
}
