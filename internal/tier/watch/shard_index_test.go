package watch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// TestShardTransitions follows objects whose hash changes, as if an object were written
// past the API.
func TestShardTransitions(t *testing.T) {
	script := []feed.Object{
		put("a/x", "app=web#1", 11),
		put("b/y", "app=web#f", 12),
		put("a/x", "app=db#7", 13),
		put("a/x", "app=db#8", 14),
		put("b/y", "app=db#f", 15),
		remove("b/y", 16),
		put("b/y", "app=web#0", 17),
	}
	byNamespace := map[bool][]string{
		true:  {"ADDED a/x 11", "MODIFIED a/x 13", "MODIFIED a/x 14"},
		false: {"ADDED b/y 12", "MODIFIED b/y 15", "DELETED b/y 16", "ADDED b/y 17"},
	}
	digit := entry.HashShardKey("a") >> 60 // that of "b" is the same
	all := slices.Concat(byNamespace[true], byNamespace[false])
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a[len(a)-2:], b[len(b)-2:]) })
	for text, want := range map[string][]string{
		"- - - uid:0-10":        all,
		"- - - uid:0-8":         {"ADDED a/x 11", "MODIFIED a/x 13", "DELETED a/x 14", "ADDED b/y 17"},
		"- - - uid:8-10":        {"ADDED b/y 12", "ADDED a/x 14", "MODIFIED b/y 15", "DELETED b/y 16"},
		"- - - uid:1-2,7-8":     {"ADDED a/x 11", "MODIFIED a/x 13", "DELETED a/x 14"},
		"- - - uid:2-7":         nil,
		"b/ - - uid:8-10":       {"ADDED b/y 12", "MODIFIED b/y 15", "DELETED b/y 16"},
		"=a/x - - uid:0-2":      {"ADDED a/x 11", "DELETED a/x 13"},
		"- app=db - uid:0-8":    {"ADDED a/x 13", "DELETED a/x 14"},
		"- app!=db - uid:0-8":   {"ADDED a/x 11", "DELETED a/x 13", "ADDED b/y 17"},
		"- - node= uid:f-10":    {"ADDED b/y 12", "MODIFIED b/y 15", "DELETED b/y 16"},
		"- - - namespace:0-10":  all,
		"a/ - - namespace:0-10": byNamespace[true],
		fmt.Sprintf("- - - namespace:%x-%x", digit, digit+1): all,
		fmt.Sprintf("- - - namespace:0-%x", digit):           nil,
	} {
		checkFollowed(t, script, text, want)
	}
}

// TestShardsAreThePartsOfTheWhole opens and closes watches of random shards while random
// objects change. Each watch must read the changes of the whole that are its own.
func TestShardsAreThePartsOfTheWhole(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			c, h := newHub(t, cache.Config{})
			whole := follow(t, h, filter(t, "- - -"), begin)
			digits := map[string]int{}
			type open struct {
				*follower
				own    map[int]bool
				opened int
			}
			var watches []open
			for revision := int64(begin + 1); revision < begin+250; revision++ {
				key := fmt.Sprintf("%c/%d", 'a'+rune(random.IntN(2)), random.IntN(40))
				if random.IntN(4) == 0 {
					c.Apply(t.Context(), []feed.Object{remove(key, revision)})
				} else {
					if _, ok := digits[key]; !ok {
						digits[key] = random.IntN(16)
					}
					c.Apply(t.Context(), []feed.Object{put(key, fmt.Sprintf("app=%d#%x", random.IntN(3), digits[key]), revision)})
				}
				whole.drain()
				own := map[int]bool{}
				var ranges []string
				for range 1 + random.IntN(3) {
					from := random.IntN(16)
					to := from + 1 + random.IntN(16-from)
					ranges = append(ranges, fmt.Sprintf("%x-%x", from, to))
					for digit := from; digit < to; digit++ {
						own[digit] = true
					}
				}
				watches = append(watches, open{follow(t, h, filter(t, "- - - uid:"+strings.Join(ranges, ",")), revision), own, len(whole.seen)})
				if i := random.IntN(len(watches)); random.IntN(2) == 0 {
					wantOwn(t, whole.seen[watches[i].opened:], digits, watches[i].follower, watches[i].own)
					watches[i].Close()
					watches = slices.Delete(watches, i, i+1)
				}
				for _, w := range watches {
					if random.IntN(8) == 0 {
						w.drain()
					}
				}
			}
			for _, w := range watches {
				wantOwn(t, whole.seen[w.opened:], digits, w.follower, w.own)
			}
		})
	}
}

// wantOwn compares what a watch reads with the changes of objects whose digit is its own.
func wantOwn(t *testing.T, all []string, digits map[string]int, f *follower, own map[int]bool) {
	t.Helper()
	f.drain()
	var want []string
	for _, change := range all {
		if own[digits[strings.Fields(change)[1]]] {
			want = append(want, change)
		}
	}
	if !slices.Equal(f.seen, want) || f.err != nil {
		t.Fatalf("digits %v: read %v (%v), want %v", own, f.seen, f.err, want)
	}
}

// TestShardWakes: an event wakes the watches of its shard, and no others.
func TestShardWakes(t *testing.T) {
	c, h := newHub(t, cache.Config{})
	var followers []*follower
	for i := range 16 {
		f := follow(t, h, filter(t, fmt.Sprintf("- - - uid:%x-%x", i, i+1)), begin)
		f.drain()
		followers = append(followers, f)
	}
	revision := int64(begin)
	for range 3 {
		for digit := range followers {
			revision++
			c.Apply(t.Context(), []feed.Object{put(fmt.Sprintf("a/%d", digit), fmt.Sprintf("#%x", digit), revision)})
			for i, f := range followers {
				if want := map[bool]int{true: 1}[i == digit]; f.woken != want {
					t.Errorf("revision %d woke shard %x %d times, want %d", revision, i, f.woken, want)
				}
				f.woken = 0
				f.drain()
			}
		}
	}
	for _, f := range followers {
		f.Close()
	}
	if subscriptions, watches := h.Watches(); subscriptions != 0 || watches != 0 {
		t.Errorf("%d subscriptions and %d watches are left", subscriptions, watches)
	}
}
