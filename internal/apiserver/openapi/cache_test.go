package openapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi"
)

// countingCatalog counts the reads of stored definitions.
type countingCatalog struct {
	*catalog
	mu   sync.Mutex
	read map[string]int
}

func (c *countingCatalog) StoredOf(d *crd.Definition, use func(stored []byte) error) error {
	c.mu.Lock()
	c.read[d.Name]++
	c.mu.Unlock()
	return c.catalog.StoredOf(d, use)
}

// readNames returns the number of reads by name since its last call.
func (c *countingCatalog) readNames() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.read
	c.read = map[string]int{}
	return found
}

func newCountingServer(t *testing.T, cacheBytes int64) (*countingCatalog, *openapi.Server, http.Handler) {
	t.Helper()
	c := &countingCatalog{catalog: newCatalog(corpus(t)...), read: map[string]int{}}
	server, err := openapi.New(openapi.Config{
		Catalog: c, Version: "test", CacheBytes: cacheBytes,
		Locals: func() []openapi.Local {
			return []openapi.Local{aggregator().local(), newBuiltin("extensions", "definitions", "Definition").local()}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, server, server.Wrap(http.NotFoundHandler())
}

func TestNothingIsReadUntilAsked(t *testing.T) {
	c, server, h := newCountingServer(t, 0)
	if get(h, "/openapi/v3").Code != http.StatusOK {
		t.Fatal("no root")
	}
	if n := c.readNames(); len(n) > 0 || server.CachedBytes() > 0 {
		t.Errorf("for the root: %d definitions read, %d bytes kept", len(n), server.CachedBytes())
	}
	get(h, "/openapi/v3/apis/other.example.com/v1")
	if n := c.readNames(); len(n) != 1 || n["gadgets.other.example.com"] != 1 {
		t.Errorf("one group version read the definitions %v", n)
	}
	tag := get(h, "/openapi/v2").Header().Get("Etag")
	c.readNames()
	if code := get(h, "/openapi/v2", "If-None-Match", tag).Code; code != http.StatusNotModified {
		t.Errorf("status %d for the same tag", code)
	}
	get(h, "/openapi/v2")
	get(h, "/openapi/v2", "Accept-Encoding", "gzip")
	if n := c.readNames(); len(n) > 0 {
		t.Errorf("documents that are cached read the definitions %v", n)
	}
}

func TestAChangeCostsOneDefinition(t *testing.T) {
	c, _, h := newCountingServer(t, 0)
	get(h, "/openapi/v2")
	before, neighbour := get(h, "/openapi/v2").Header().Get("Etag"), roots(t, h)
	c.readNames()
	changed := corpus(t)[0]
	changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "another"
	c.put(changed)
	answer := get(h, "/openapi/v2", "If-None-Match", before)
	if answer.Code != http.StatusOK || answer.Header().Get("Etag") == before || !strings.Contains(answer.Body.String(), `"another"`) {
		t.Errorf("status %d, tag %s before %s", answer.Code, answer.Header().Get("Etag"), before)
	}
	if n := c.readNames(); len(n) != 1 || n[changed.Name] != 1 {
		t.Errorf("%v read", n)
	}
	for path, url := range roots(t, h) {
		if (url != neighbour[path]) != (path == "apis/plain.example.com/v1") {
			t.Errorf("%s: %s, and before %s", path, url, neighbour[path])
		}
	}
	c.put(corpus(t)[0])
	if tag := get(h, "/openapi/v2").Header().Get("Etag"); tag != before {
		t.Errorf("tag %s of the old content, which had %s", tag, before)
	}
}

func TestTagsAreTheSameOnAllServers(t *testing.T) {
	_, _, one := newCountingServer(t, 0)
	_, _, other := newCountingServer(t, 0)
	a, b := roots(t, one), roots(t, other)
	for path := range a {
		if a[path] != b[path] {
			t.Errorf("%s: %s and %s", path, a[path], b[path])
		}
	}
	if a, b := get(one, "/openapi/v2").Header().Get("Etag"), get(other, "/openapi/v2").Header().Get("Etag"); a != b || a == "" {
		t.Errorf("v2: %s and %s", a, b)
	}
}

func TestHashesLetClientsKeep(t *testing.T) {
	_, _, h := newCountingServer(t, 0)
	const path = "apis/plain.example.com/v1"
	location := roots(t, h)[path]
	answer := get(h, location)
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	if tag := strings.Trim(answer.Header().Get("Etag"), `"`); tag != u.Query().Get("hash") {
		t.Errorf("tag %s at %s", tag, location)
	}
	if got := answer.Header().Get("Cache-Control"); got != "public, immutable" {
		t.Errorf("Cache-Control %q", got)
	}
	old := get(h, "/openapi/v3/"+path+"?hash=OLD")
	if old.Code != http.StatusMovedPermanently || old.Header().Get("Location") != location {
		t.Errorf("an old hash: status %d to %s", old.Code, old.Header().Get("Location"))
	}
}

func TestLittleMemory(t *testing.T) {
	const limit = 16 << 10
	c, server, h := newCountingServer(t, limit)
	_, _, roomy := newCountingServer(t, 0)
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/tricky.example.com/v1"} {
		for range 2 {
			want, got := get(roomy, path), get(h, path)
			if d := difference(want.Body.Bytes(), got.Body.Bytes()); d != "" {
				t.Errorf("%s%s", path, d)
			}
		}
	}
	if kept := server.CachedBytes(); kept > limit || kept == 0 {
		t.Errorf("%d bytes are kept, at most %d", kept, limit)
	}
	for _, d := range corpus(t) {
		c.remove(d.Name)
	}
	get(h, "/openapi/v2")
}

// TestPlainReadsAreUnpackedFaster sees that the fragments of a client that reads plain
// text repeatedly are cached in s2 as well, within the limit, and that those of other
// clients are not.
func TestPlainReadsAreUnpackedFaster(t *testing.T) {
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/tricky.example.com/v1"} {
		_, server, h := newCountingServer(t, 0)
		first := get(h, path)
		once := server.CachedBytes()
		if path == "/openapi/v2" {
			for range 4 {
				get(h, path, "Accept-Encoding", "gzip")
			}
			if got := server.CachedBytes(); got != once {
				t.Errorf("%d bytes are kept after gzip, before %d", got, once)
			}
		}
		for range 4 {
			if got := get(h, path); got.Body.String() != first.Body.String() {
				t.Fatalf("%s%s", path, difference(first.Body.Bytes(), got.Body.Bytes()))
			}
		}
		again := server.CachedBytes()
		if again <= once {
			t.Errorf("%s: %d bytes are kept, %d after the first", path, again, once)
		}
		_, tight, h := newCountingServer(t, (once+again)/2)
		for range 5 {
			get(h, path)
		}
		if got := tight.CachedBytes(); got < once || got > (once+again)/2 {
			t.Errorf("%s: %d bytes are kept with room for %d", path, got, (once+again)/2)
		}
	}
}

// TestReadsAndChanges reads documents while definitions come and go.
func TestReadsAndChanges(t *testing.T) {
	c, _, h := newCountingServer(t, 64<<10)
	all := corpus(t)
	var group sync.WaitGroup
	for reader := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range 10 {
				path := []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/apis/tricky.example.com/v1"}[(reader+i)%3]
				answer := get(h, path)
				if answer.Code != http.StatusOK && answer.Code != http.StatusNotFound {
					t.Errorf("%s: status %d", path, answer.Code)
				} else if answer.Code == http.StatusOK {
					if d := difference(answer.Body.Bytes(), answer.Body.Bytes()); d != "" {
						t.Errorf("%s: %s", path, d)
					}
				}
			}
		}()
	}
	for i := range 60 {
		d := all[i%len(all)].DeepCopy()
		if i%4 == 3 {
			c.remove(d.Name)
			continue
		}
		if s := d.Spec.Versions[0].Schema; s != nil {
			s.OpenAPIV3Schema.Description = fmt.Sprint(i)
		}
		c.put(d)
	}
	group.Wait()
}

// changingCatalog changes each definition before it is read, and remembers all its states.
type changingCatalog struct {
	*countingCatalog
	t *testing.T

	state struct {
		sync.Mutex
		// stored has the states by the hashes of their specs.
		stored map[uint64][]byte
		number int
	}
}

func (c *changingCatalog) StoredOf(d *crd.Definition, use func(stored []byte) error) error {
	c.state.Lock()
	defer c.state.Unlock()
	if err := c.countingCatalog.StoredOf(d, func(stored []byte) error {
		c.state.stored[d.Spec] = stored
		return nil
	}); err != nil {
		c.t.Errorf("%s was read before: %v", d.Name, err)
	}
	changed := corpus(c.t)[0]
	c.state.number++
	changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint("state ", c.state.number)
	c.put(changed)
	return use(c.state.stored[d.Spec])
}

// TestDefinitionsChangeMeanwhile changes every definition while a document is put together. The
// document is complete as of its beginning: nothing is read twice.
func TestDefinitionsChangeMeanwhile(t *testing.T) {
	t.Parallel()
	counting := &countingCatalog{catalog: newCatalog(corpus(t)[0]), read: map[string]int{}}
	c := &changingCatalog{countingCatalog: counting, t: t}
	c.state.stored = map[uint64][]byte{}
	h := newServer(t, c, aggregator(), newBuiltin("extensions", "definitions", "Definition")).Wrap(http.NotFoundHandler())
	w := get(h, "/openapi/v2", "Accept", "application/json")
	if w.Code != http.StatusOK || w.Body.Len() == 0 {
		t.Errorf("status %d: %.200s", w.Code, w.Body)
	}
	for name, n := range c.readNames() {
		if n != 1 {
			t.Errorf("%s was read %d times, want once", name, n)
		}
	}
}
