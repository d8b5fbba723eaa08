package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/checkpoint"
	"github.com/millrace/millrace/internal/wire/entry"
)

const source = "etcd 1 /registry/"

// holding returns a cache with objects of one resource, some of which are large, and with
// a key of none.
func holding(t *testing.T, open func(context.Context, string, []byte) ([]byte, error)) *cache.Cache {
	t.Helper()
	c := cache.New(cache.Config{})
	register(c, open)
	load := c.BeginLoad()
	var kvs []feed.Object
	for i := range 500 {
		value := fmt.Sprintf("value %d %s", i, strings.Repeat("x", 20_000*(i%2)))
		kvs = append(kvs, present(fmt.Sprintf("/registry/pods/ns/%03d", i), value, int64(i+1)))
	}
	load.Add(t.Context(), append(kvs, present("/registry/unknown/a", "other", 900)))
	load.End(t.Context(), 990)
	c.Apply(t.Context(), []feed.Object{present("/registry/pods/ns/deleted", "d", 997)})
	c.Apply(t.Context(), []feed.Object{{Key: []byte("/registry/pods/ns/deleted"), Revision: 998, Deleted: true}})
	c.Progressed(1000)
	return c
}

func register(c *cache.Cache, open func(context.Context, string, []byte) ([]byte, error)) *cache.Resource {
	return c.Register(cache.Spec{
		Prefix: "/registry/pods/", GroupResource: schema.GroupResource{Resource: "pods"}, Open: open,
		Describe: func(e *entry.Entry) error {
			e.Attributes = entry.NewAttributes(nil, nil)
			return nil
		},
	})
}

func present(key, value string, revision int64) feed.Object {
	return feed.Object{Key: []byte(key), Value: []byte(value), Revision: revision}
}

// contents returns the objects of a cache as text.
func contents(t *testing.T, c *cache.Cache) (all []string) {
	t.Helper()
	held, err := c.Contents()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range held.Parts {
		for e := range p.Snapshot.All("", "") {
			err := e.Read(func(value []byte) error {
				all = append(all, fmt.Sprintf("%s%s %d %s", p.Prefix, e.Key, e.Revision, value))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

func write(t *testing.T, c *cache.Cache, order checkpoint.Order) (*checkpoint.Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checkpoints")
	dir, err := checkpoint.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if order.Contents, err = c.Contents(); err != nil {
		t.Fatal(err)
	}
	order.Source = source
	size, err := dir.Write(t.Context(), "pods", &order)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "pods.checkpoint")
	info, err := os.Stat(file)
	if err != nil || info.Size() != size || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %v (%v), want %d bytes and mode 0600", info, err, size)
	}
	return dir, file
}

// loadInto loads the checkpoint into a cache, and ends the load if it is sound.
func loadInto(ctx context.Context, dir *checkpoint.Dir, c *cache.Cache) error {
	kept, err := dir.Open("pods", source)
	if err != nil {
		return err
	}
	defer kept.Close()
	load := c.BeginLoad()
	if err := kept.Load(ctx, load); err != nil {
		return err
	}
	load.End(ctx, kept.Revision())
	return nil
}

// TestRoundTrip writes what a cache holds and loads it into another one, which follows
// from the same revision.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	from := holding(t, nil)
	pauses := 0
	dir, _ := write(t, from, checkpoint.Order{Pause: func(context.Context, time.Duration) error { pauses++; return nil }})
	if pauses < 2 {
		t.Errorf("%d pauses for a header and 5 MB of objects", pauses)
	}
	kept, err := dir.Open("pods", source)
	if err != nil {
		t.Fatal(err)
	}
	if w := kept.Witness(); kept.Revision() != 1000 || string(w.Key) != "/registry/unknown/a" || w.Revision != 900 || string(w.Value) != "other" {
		t.Errorf("revision %d, witness %v", kept.Revision(), w)
	}
	_ = kept.Close()
	to := cache.New(cache.Config{})
	pods := register(to, nil)
	if err := loadInto(t.Context(), dir, to); err != nil {
		t.Fatal(err)
	}
	if want := contents(t, from); !slices.Equal(contents(t, to), want) || len(want) != 501 {
		t.Errorf("the loaded cache differs from the one with %d objects", len(want))
	}
	to.Apply(t.Context(), []feed.Object{present("/registry/pods/ns/new", "n", 1001)})
	// The last change of the resource before the checkpoint was at revision 998.
	for revision, want := range map[int64]error{1000: nil, 998: nil, 997: cache.ErrExpired} {
		if _, _, err := pods.Log().Since(revision); !errors.Is(err, want) {
			t.Errorf("a watch from %d: %v, want %v", revision, err, want)
		}
	}
	late := to.Register(cache.Spec{Prefix: "/registry/unknown/"})
	if _, _, err := late.Log().Since(900); !errors.Is(err, cache.ErrExpired) || to.Progress().Revision() != 1001 {
		t.Errorf("a watch of keys of which the checkpoint tells no changes: %v", err)
	}
}

// TestEncryptedIsLeftOut: objects whose stored bytes are encrypted, and those that the
// caller excludes, are not in the file.
func TestEncryptedIsLeftOut(t *testing.T) {
	t.Parallel()
	decrypt := func(_ context.Context, _ string, stored []byte) ([]byte, error) {
		return bytes.Replace(stored, []byte("value"), []byte("plain"), 1), nil
	}
	for name, test := range map[string]struct {
		open  func(context.Context, string, []byte) ([]byte, error)
		order checkpoint.Order
	}{
		"encrypted": {open: decrypt},
		"excluded":  {order: checkpoint.Order{LeaveOut: func(p *cache.Part) bool { return p.GroupResource.Resource == "pods" }}},
	} {
		dir, file := write(t, holding(t, test.open), test.order)
		kept, err := dir.Open("pods", source)
		if err != nil {
			t.Fatal(err)
		}
		if missing := kept.MissingPrefixes(); !slices.Equal(missing, []string{"/registry/pods/"}) {
			t.Errorf("%s: missing %v", name, missing)
		}
		_ = kept.Close()
		to := cache.New(cache.Config{})
		if err := loadInto(t.Context(), dir, to); err != nil || !slices.Equal(contents(t, to), []string{"/registry/unknown/a 900 other"}) {
			t.Errorf("%s: loaded %v, %v", name, contents(t, to), err)
		}
		if data, err := os.ReadFile(file); err != nil || bytes.Contains(data, []byte("plain")) {
			t.Errorf("%s: the file has values in plain (%v)", name, err)
		}
	}
}

// TestDamage changes, cuts and lengthens a file at every part of it: no load ends.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir, file := write(t, holding(t, nil), checkpoint.Order{})
	sound, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, data []byte, want error) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := loadInto(t.Context(), dir, cache.New(cache.Config{})); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	check("sound", sound, nil)
	check("older format", append([]byte("millrace checkpoint 0\n"), sound[22:]...), checkpoint.ErrFormat)
	check("empty", nil, checkpoint.ErrFormat)
	for i := 22; i < len(sound); i += max(1, len(sound)/60) {
		changed := bytes.Clone(sound)
		changed[i] ^= 0x10
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		// A changed header may name another source.
		if err := loadInto(t.Context(), dir, cache.New(cache.Config{})); err == nil {
			t.Errorf("byte %d of %d was changed, and the checkpoint loaded", i, len(sound))
		}
		check(fmt.Sprint("cut at ", i), sound[:i], checkpoint.ErrDamaged)
	}
	check("longer", append(bytes.Clone(sound), 0), checkpoint.ErrDamaged)
	check("huge block", append(bytes.Clone(sound[:22]), 0xff, 0xff, 0xff, 0xff), checkpoint.ErrDamaged)
}

// TestReplace: another source and a missing file are told apart, and a writing that fails
// leaves the file before.
func TestReplace(t *testing.T) {
	t.Parallel()
	dir, _ := write(t, holding(t, nil), checkpoint.Order{})
	if _, err := dir.Open("pods", "etcd 2 /registry/"); !errors.Is(err, checkpoint.ErrSource) {
		t.Errorf("opened with another source: %v", err)
	}
	if kept, err := dir.Open("nodes", source); kept != nil || err != nil {
		t.Errorf("opened what is not there: %v, %v", kept, err)
	}
	stop := errors.New("stop")
	if _, err := dir.Write(t.Context(), "pods", &checkpoint.Order{Pause: func(context.Context, time.Duration) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("stopped writing: %v", err)
	}
	if err := loadInto(t.Context(), dir, cache.New(cache.Config{})); err != nil {
		t.Errorf("after a writing that failed: %v", err)
	}
	if names, err := dir.Names(); err != nil || !slices.Equal(names, []string{"pods"}) {
		t.Errorf("names %v, %v", names, err)
	}
	if err := errors.Join(dir.Remove("pods"), dir.Remove("pods")); err != nil {
		t.Error(err)
	}
	if _, err := dir.Open("pods", source); errors.Is(err, fs.ErrNotExist) {
		t.Error("a removed checkpoint is an error")
	}
}
