package watch_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

const prefix = "/registry/pods/"

// begin is the revision at which caches are loaded.
const begin = 10

// newHub makes a hub over an empty cache. Values are "label=x,label=y/field=z#8". The
// hexadecimal digit after "#" begins the hash of the UID. It may be left out. Values that
// begin with "broken" are unreadable.
func newHub(t *testing.T, cfg cache.Config) (*cache.Cache, *watch.Hub) {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	c := cache.New(cfg)
	r := c.Register(cache.Spec{Prefix: prefix, Describe: describe})
	h := watch.NewHub(r)
	load(t, c, begin)
	return c, h
}

func describe(e *entry.Entry) error {
	text := string(e.Value)
	if strings.HasPrefix(text, "broken") {
		return errors.New("cannot be read")
	}
	text, digit, _ := strings.Cut(text, "#")
	if digit != "" {
		n, err := strconv.ParseUint(digit, 16, 4)
		if err != nil {
			return err
		}
		// The hash is the first or the last one that begins so.
		if e.UIDHash = n << 60; e.Revision%2 == 1 {
			e.UIDHash += 1<<60 - 1
		}
	}
	labelText, fieldText, _ := strings.Cut(text, "/")
	l, err := labels.ConvertSelectorToLabelsMap(labelText)
	if err != nil {
		return err
	}
	f := fields.Set{}
	if name, value, ok := strings.Cut(fieldText, "="); ok {
		f[name] = value
	}
	e.Attributes = entry.NewAttributes(l, f)
	return nil
}

func load(t *testing.T, c *cache.Cache, revision int64, objects ...feed.Object) {
	t.Helper()
	loader := c.BeginLoad()
	loader.Add(t.Context(), objects)
	loader.End(t.Context(), revision)
}

func put(key, value string, revision int64) feed.Object {
	return feed.Object{Key: []byte(prefix + key), Value: []byte(value), Revision: revision}
}

func remove(key string, revision int64) feed.Object {
	return feed.Object{Key: []byte(prefix + key), Revision: revision, Deleted: true}
}

// filter parses "prefix labels fields", each "-" for none, and maybe the ranges of a shard
// as in "uid:0-8,c-10". "=" before the prefix makes it the key of one object.
func filter(t *testing.T, text string) watch.Filter {
	t.Helper()
	words := strings.Fields(text)
	s := watch.Filter{}
	if words[0] != "-" {
		s.Prefix = strings.TrimPrefix(words[0], "=")
		s.Single = words[0] != s.Prefix
	}
	var err error
	if words[1] != "-" {
		if s.Labels, err = labels.Parse(strings.ReplaceAll(words[1], "_", " ")); err != nil {
			t.Fatal(err)
		}
	}
	if words[2] != "-" {
		if s.Fields, err = fields.ParseSelector(words[2]); err != nil {
			t.Fatal(err)
		}
	}
	if len(words) > 3 {
		s.Shard = shard(t, words[3])
	}
	return s
}

// shard parses the ranges of a shard. Their ends are the first digits of hashes; "10" is
// the end of all hashes.
func shard(t testing.TB, text string) *entry.Shard {
	t.Helper()
	key, ranges, _ := strings.Cut(text, ":")
	var requirements []sharding.ShardRangeRequirement
	for _, r := range strings.Split(ranges, ",") {
		start, end, _ := strings.Cut(r, "-")
		const zeros = "000000000000000"
		requirements = append(requirements, sharding.ShardRangeRequirement{Key: "object.metadata." + key, Start: "0x" + start + zeros, End: "0x" + end + zeros})
	}
	s, err := entry.NewShard(sharding.NewSelector(requirements...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// follower is a watch together with what it has read.
type follower struct {
	*watch.Cursor
	// woken is the number of wake calls.
	woken int
	seen  []string
	err   error
}

func follow(t *testing.T, h *watch.Hub, s watch.Filter, after int64) *follower {
	t.Helper()
	f := &follower{}
	var err error
	if f.Cursor, err = h.Open(s, after, func() { f.woken++ }); err != nil {
		t.Fatal(err)
	}
	return f
}

// drain reads until nothing is left, and returns what it read.
func (f *follower) drain() []string {
	var read []string
	for more := true; more && f.err == nil; {
		var changes []encode.Change
		changes, more, f.err = f.Next(nil)
		for _, c := range changes {
			read = append(read, fmt.Sprintf("%s %s %d", c.Kind, c.Entry.Key, c.Revision))
		}
	}
	f.seen = append(f.seen, read...)
	return read
}

// checkFollowed applies events, and checks what two watches with a filter read of them: one
// that was open before, and one opened after them.
func checkFollowed(t *testing.T, script []feed.Object, text string, want []string) {
	t.Helper()
	for _, step := range []int{1, len(script)} {
		t.Run(fmt.Sprintf("%s by %d", text, step), func(t *testing.T) {
			c, h := newHub(t, cache.Config{})
			live := follow(t, h, filter(t, text), begin)
			for events := range slices.Chunk(script, step) {
				c.Apply(t.Context(), events)
				live.drain()
			}
			if !slices.Equal(live.seen, want) {
				t.Errorf("followed %v, want %v", live.seen, want)
			}
			late := follow(t, h, filter(t, text), begin)
			if late.drain(); !slices.Equal(late.seen, want) {
				t.Errorf("replayed %v, want %v", late.seen, want)
			}
		})
	}
}
