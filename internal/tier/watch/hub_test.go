package watch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/watch"
)

// TestTransitions follows an object that enters and leaves filters.
func TestTransitions(t *testing.T) {
	script := []feed.Object{
		put("a/x", "app=web/node=n1", 11),
		put("b/x", "app=web/node=n1", 12),
		put("a/x", "app=db/node=n1", 13),
		put("a/x", "app=db/node=n2", 14),
		put("a/x", "app=web,tier=1/node=n2", 15),
		remove("a/x", 16),
		put("a/x", "/node=", 17),
	}
	all := []string{"ADDED a/x 11", "ADDED b/x 12", "MODIFIED a/x 13", "MODIFIED a/x 14", "MODIFIED a/x 15", "DELETED a/x 16", "ADDED a/x 17"}
	inA := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return strings.Contains(s, "b/x") })
	for text, want := range map[string][]string{
		"- - -":                         all,
		"a/ - -":                        inA,
		"=a/x - -":                      inA,
		"=a/x app=web -":                {"ADDED a/x 11", "DELETED a/x 13", "ADDED a/x 15", "DELETED a/x 16"},
		"c/ - -":                        nil,
		"=a/xx - -":                     nil,
		"- app=web -":                   {"ADDED a/x 11", "ADDED b/x 12", "DELETED a/x 13", "ADDED a/x 15", "DELETED a/x 16"},
		"- app_in_(web,db) -":           {"ADDED a/x 11", "ADDED b/x 12", "MODIFIED a/x 13", "MODIFIED a/x 14", "MODIFIED a/x 15", "DELETED a/x 16"},
		"- app!=web -":                  {"ADDED a/x 13", "MODIFIED a/x 14", "DELETED a/x 15", "ADDED a/x 17"},
		"- tier -":                      {"ADDED a/x 15", "DELETED a/x 16"},
		"- !app -":                      {"ADDED a/x 17"},
		"- - node=n1":                   {"ADDED a/x 11", "ADDED b/x 12", "MODIFIED a/x 13", "DELETED a/x 14"},
		"a/ - node=n1":                  {"ADDED a/x 11", "MODIFIED a/x 13", "DELETED a/x 14"},
		"- - node=":                     {"ADDED a/x 17"},
		"- - node!=n1":                  {"ADDED a/x 14", "MODIFIED a/x 15", "DELETED a/x 16", "ADDED a/x 17"},
		"- app=web node=n2":             {"ADDED a/x 15", "DELETED a/x 16"},
		"- - metadata.name=x,node=n2":   {"ADDED a/x 14", "MODIFIED a/x 15", "DELETED a/x 16"},
		"- - metadata.namespace=b":      {"ADDED b/x 12"},
		"a/ - metadata.namespace=b":     nil,
		"- app=web metadata.name=other": nil,
	} {
		checkFollowed(t, script, text, want)
	}
}

// TestWakes: an event wakes the watches that it concerns, and no others.
func TestWakes(t *testing.T) {
	c, h := newHub(t, cache.Config{})
	followers := map[string]*follower{}
	for _, text := range []string{
		"- - -", "a/ - -", "b/ - -", "=a/x - -", "=a/y - -", "- app=web -", "- app=db -", "- app_in_(web,db) -",
		"- - node=n1", "- - node=n2", "a/ - node=n2", "- app!=web -",
	} {
		f := follow(t, h, filter(t, text), begin)
		f.drain()
		followers[text] = f
	}
	for _, c2 := range []struct {
		event feed.Object
		wakes []string
	}{
		{put("a/x", "app=web/node=n1", 11), []string{"- - -", "a/ - -", "=a/x - -", "- app=web -", "- app_in_(web,db) -", "- - node=n1"}},
		{put("a/x", "app=web/node=n2", 12), []string{"- - -", "a/ - -", "=a/x - -", "- app=web -", "- app_in_(web,db) -", "- - node=n1", "- - node=n2", "a/ - node=n2"}},
		{put("c/x", "", 13), []string{"- - -", "- app!=web -"}},
		{remove("c/x", 14), []string{"- - -", "- app!=web -"}},
	} {
		c.Apply(t.Context(), []feed.Object{c2.event})
		for text, f := range followers {
			want := 0
			if slices.Contains(c2.wakes, text) {
				want = 1
			}
			if f.woken != want {
				t.Errorf("revision %d woke %q %d times, want %d", c2.event.Revision, text, f.woken, want)
			}
			if f.woken = 0; len(f.drain()) != want {
				t.Errorf("revision %d: %q did not read exactly %d events", c2.event.Revision, text, want)
			}
		}
	}
}

// TestOneWake: a watch that was woken and has not read since is not woken again.
func TestOneWake(t *testing.T) {
	c, h := newHub(t, cache.Config{})
	f := follow(t, h, watch.Filter{}, begin)
	c.Apply(t.Context(), []feed.Object{put("a/x", "", 11)})
	if f.woken != 0 {
		t.Error("the cursor was woken before it waited")
	}
	f.drain()
	for revision := int64(12); revision < 15; revision++ {
		c.Apply(t.Context(), []feed.Object{put("a/x", "", revision)})
	}
	if f.woken != 1 {
		t.Errorf("woken %d times, want once", f.woken)
	}
}

func TestRevisionAhead(t *testing.T) {
	c, h := newHub(t, cache.Config{})
	f := follow(t, h, watch.Filter{}, 12)
	c.Apply(t.Context(), []feed.Object{put("a/x", "", 11), put("a/y", "", 12), put("a/z", "", 13)})
	if got := f.drain(); !slices.Equal(got, []string{"ADDED a/z 13"}) {
		t.Errorf("read %v, want the event after revision 12", got)
	}
}

// TestSlowWatchIsLost: a watch that falls behind and leaves the log's bounds is lost, and
// others with the same filter are not.
func TestSlowWatchIsLost(t *testing.T) {
	c, h := newHub(t, cache.Config{HistoryBytes: 1000})
	slow, fast := follow(t, h, watch.Filter{}, begin), follow(t, h, watch.Filter{}, begin)
	slow.drain()
	for revision := int64(11); revision < 100; revision++ {
		c.Apply(t.Context(), []feed.Object{put("a/x", "app=web", revision)})
		if got := fast.drain(); len(got) != 1 {
			t.Fatalf("revision %d: read %v", revision, got)
		}
	}
	if slow.drain(); !errors.Is(slow.err, cache.ErrExpired) || len(slow.seen) > 0 {
		t.Errorf("the slow watch read %v and got %v, want nothing and ErrExpired", slow.seen, slow.err)
	}
	if _, err := h.Open(watch.Filter{}, begin, func() {}); !errors.Is(err, cache.ErrExpired) {
		t.Errorf("Open at a revision that is gone: %v", err)
	}
	slow.Close()
	if fast.drain(); fast.err != nil {
		t.Errorf("the fast watch got %v", fast.err)
	}
}

func TestForgottenHistoryEndsWatches(t *testing.T) {
	c, h := newHub(t, cache.Config{})
	idle, behind, old := follow(t, h, watch.Filter{}, begin), follow(t, h, filter(t, "a/ - -"), begin), follow(t, h, filter(t, "- app=web -"), begin)
	idle.drain()
	c.Apply(t.Context(), []feed.Object{put("a/x", "", 11)})
	idle.drain()
	idle.woken = 0
	load(t, c, 20)
	if idle.woken != 1 {
		t.Errorf("an idle watch was woken %d times, want once", idle.woken)
	}
	for _, f := range []*follower{idle, behind, old} {
		if f.drain(); !errors.Is(f.err, cache.ErrExpired) {
			t.Errorf("got %v, want ErrExpired", f.err)
		}
		f.Close()
	}
	anew := follow(t, h, watch.Filter{}, 20)
	c.Apply(t.Context(), []feed.Object{put("a/x", "", 21)})
	if got := anew.drain(); !slices.Equal(got, []string{"ADDED a/x 21"}) {
		t.Errorf("a new watch read %v", got)
	}
}

func TestOpaqueEventEndsWatches(t *testing.T) {
	c, h := newHub(t, cache.Config{})
	concerned, other := follow(t, h, filter(t, "a/ app=web -"), begin), follow(t, h, filter(t, "b/ - -"), begin)
	concerned.drain()
	c.Apply(t.Context(), []feed.Object{put("a/y", "app=web", 11), put("a/x", "broken", 12)})
	if concerned.drain(); !slices.Equal(concerned.seen, []string{"ADDED a/y 11"}) || !errors.Is(concerned.err, watch.ErrOpaque) {
		t.Errorf("read %v and got %v, want the event before, and ErrOpaque", concerned.seen, concerned.err)
	}
	if other.drain(); other.err != nil {
		t.Errorf("a watch of another namespace got %v", other.err)
	}
	if _, err := h.Open(filter(t, "a/ - -"), 11, func() {}); !errors.Is(err, watch.ErrOpaque) {
		t.Errorf("Open before the opaque event: %v, want ErrOpaque", err)
	}
	follow(t, h, filter(t, "a/ - -"), 12).Close()
}

func TestCloseLeavesNothing(t *testing.T) {
	_, h := newHub(t, cache.Config{})
	var open []*follower
	for i := range 30 {
		f := follow(t, h, filter(t, fmt.Sprintf("- app=%d -", i%3)), begin)
		if i%2 == 0 {
			f.drain()
		}
		open = append(open, f)
	}
	if subscriptions, watches := h.Watches(); subscriptions != 3 || watches != 30 {
		t.Errorf("%d subscriptions and %d watches, want 3 and 30", subscriptions, watches)
	}
	rand.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
	for _, f := range open {
		f.Close()
	}
	if subscriptions, watches := h.Watches(); subscriptions != 0 || watches != 0 {
		t.Errorf("%d subscriptions and %d watches are left", subscriptions, watches)
	}
}

// TestRandomScripts opens watches at random times and revisions. It compares their events
// with the events of a watch that reads one event at a time.
func TestRandomScripts(t *testing.T) {
	filters := []string{
		"- - -", "a/ - -", "=a/1 - -", "- app=0 -", "- app_in_(0,1) -", "- app!=0 -", "b/ app -", "- - node=0", "a/ - node=1", "- app=1 node=0", "- - node!=0",
	}
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c, h := newHub(t, cache.Config{})
			type open struct {
				*follower
				text  string
				after int64
			}
			var watches []open
			var script []feed.Object
			revision := int64(begin)
			for range 60 {
				var events []feed.Object
				for range 1 + random.IntN(4) {
					revision++
					key := fmt.Sprintf("%c/%d", 'a'+rune(random.IntN(2)), random.IntN(3))
					if random.IntN(4) == 0 {
						events = append(events, remove(key, revision))
					} else {
						events = append(events, put(key, fmt.Sprintf("app=%d/node=%d", random.IntN(3), random.IntN(2)), revision))
					}
				}
				c.Apply(t.Context(), events)
				script = append(script, events...)
				after := begin + random.Int64N(revision-begin+1)
				text := filters[random.IntN(len(filters))]
				watches = append(watches, open{follow(t, h, filter(t, text), after), text, after})
				for _, w := range watches {
					if random.IntN(3) == 0 {
						w.drain()
					}
				}
			}
			for _, w := range watches {
				w.drain()
				if want := expect(t, script, w.text, w.after); !slices.Equal(w.seen, want) || w.err != nil {
					t.Errorf("%q after %d: read %v (%v), want %v", w.text, w.after, w.seen, w.err, want)
				}
				w.Close()
			}
		})
	}
}

// expect returns the changes that a watch should read. It applies the script to a hub of
// its own, one event at a time.
func expect(t *testing.T, script []feed.Object, text string, after int64) []string {
	t.Helper()
	c, h := newHub(t, cache.Config{})
	f := follow(t, h, filter(t, text), begin)
	var want []string
	for _, e := range script {
		c.Apply(t.Context(), []feed.Object{e})
		if got := f.drain(); e.Revision > after {
			want = append(want, got...)
		}
	}
	return want
}
