package cache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// TestUsage measures a resource that is large enough to be packed, before and after
// changes.
func TestUsage(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := newCache(cache.Config{Clock: now})
	r := c.Register(cache.Spec{Prefix: "/registry/pods/"})
	var objects []feed.Object
	for i := range 200 {
		objects = append(objects, object(fmt.Sprintf("/registry/pods/a/%03d", i), strings.Repeat(fmt.Sprintf("value %d ", i), 200), int64(i+1)))
	}
	load(t, c, 1000, append(objects, object("/registry/g/widgets/a", "12345", 900), object("/registry/g/widgets/b", "678", 901), object("/registry/g/others/a", "9", 902))...)
	check := func(what string) cache.Usage {
		t.Helper()
		var held int64
		snapshot := r.Snapshot()
		for e := range snapshot.All("", "") {
			held += int64(len(e.Value))
		}
		u := r.Usage()
		if u.Objects != snapshot.Len() || u.Values != held {
			t.Errorf("%s: usage is %d objects of %d bytes, want %d of %d", what, u.Objects, u.Values, snapshot.Len(), held)
		}
		return u
	}
	if u := check("after the load"); u.Values >= r.Snapshot().Bytes/2 || u.Log != 0 {
		t.Errorf("values take %d bytes for %d, and the empty log takes %d", u.Values, r.Snapshot().Bytes, u.Log)
	}
	c.Apply(t.Context(), apply(put("/registry/pods/a/000", "short", 1001), remove("/registry/pods/a/001", 1002)))
	now.SetTime(now.Now().Add(7 * time.Second))
	u := check("after two changes")
	if u.Log <= 0 {
		t.Error("the log holds two versions and reports no bytes")
	}
	if events, bytes, oldest := r.Log().Size(); events != 2 || bytes != u.Log || now.Since(oldest) != 7*time.Second {
		t.Errorf("the log holds %d events of %d bytes, the oldest from %v", events, bytes, oldest)
	}
	if n, bytes := c.UnclaimedSize("/registry/g/widgets/"); n != 2 || bytes != 8 {
		t.Errorf("%d objects of %d bytes are unclaimed, want 2 of 8", n, bytes)
	}
}
