package crds

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// hookObjects is a number of objects that fill more than one review.
const hookObjects = 230

// convertedDefinition has a webhook convert between v1, which is stored, and v2.
const convertedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.%[1]s"%[2]s},
"spec":{"group":"%[1]s","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"%[3]s","caBundle":"%[4]s"}}},
"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"%[5]s","properties":{"spec":{"type":"object","properties":{"text":{"type":"string"}}}}}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"words":{"type":"string"},"n":{"type":"number"}}}}}},
"additionalPrinterColumns":[{"name":"Words","type":"string","jsonPath":".spec.words"}]}]}}`

// conversionTest has a definition whose webhook counts reviews and objects.
type conversionTest struct {
	t *testing.T
	*run
}

func (c *conversionTest) path(i int) string { return c.group + "/" + sideNames[i] }

// define creates the definition on both sides, or changes its description, and waits until it
// is served.
func (c *conversionTest) define(description string) {
	err := c.pair.both(func(i int, side *side) error {
		return harness.Until(settleTimeout, func() error {
			version, method, path := "", http.MethodPost, definitionsPath
			if description != "" {
				method, path = http.MethodPut, definitionsPath+"/widgets."+c.group
				body, err := side.get(path, "application/json")
				if err != nil {
					return err
				}
				_, rest, _ := strings.Cut(string(body), `"resourceVersion":"`)
				rest, _, _ = strings.Cut(rest, `"`)
				version = `,"resourceVersion":"` + rest + `"`
			}
			a, err := side.do(jsonCall(method, path, fmt.Sprintf(convertedDefinition, c.group, version, c.pair.webhook.url+"/count/"+c.path(i), c.pair.webhook.ca, description)))
			if err == nil && a.status >= 300 && a.status != http.StatusConflict {
				err = fmt.Errorf("status %d: %.300s", a.status, a.body)
			}
			if err != nil || a.status == http.StatusConflict && description != "" {
				return fmt.Errorf("define: %w (%v)", harness.ErrNotYet, err)
			}
			_, err = side.get("/apis/"+c.group+"/v1/widgets?limit=1", "application/json")
			return err
		})
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// step sends a request to both sides, and compares the answers.
func (c *conversionTest) step(verb, path, body string, options ...string) {
	s := &step{verb: verb, words: []string{"/apis/" + c.group + path}, body: body, options: map[string]string{}}
	for i := 0; i < len(options); i += 2 {
		s.options[options[i]] = options[i+1]
	}
	c.at = verb + " " + path
	c.plain(s)
}

// wantReviews checks the objects that our server sent to the webhook since the last call, and
// that it sent them in so many reviews at most.
func (c *conversionTest) wantReviews(what string, reviews, objects int) {
	c.t.Helper()
	theirReviews, theirObjects := c.pair.webhook.counts.take(c.path(1))
	gotReviews, gotObjects := c.pair.webhook.counts.take(c.path(0))
	c.t.Logf("%s: %d reviews of %d objects, the stock server %d of %d", what, gotReviews, gotObjects, theirReviews, theirObjects)
	if gotReviews > reviews || gotObjects != objects {
		c.t.Errorf("%s: %d reviews of %d objects, want at most %d of %d", what, gotReviews, gotObjects, reviews, objects)
	}
}

// fill creates objects in the version that is stored.
func (c *conversionTest) fill(count int) {
	err := c.pair.both(func(_ int, side *side) error {
		for n := range count {
			body := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"w%04d","labels":{"l":"m%d"}},"spec":{"text":"text %d"}}`, c.group, n, n%10, n)
			a, err := side.do(jsonCall(http.MethodPost, "/apis/"+c.group+"/v1/namespaces/default/widgets", body))
			if err != nil || a.status != http.StatusCreated {
				return fmt.Errorf("create: %w: %+v", err, a)
			}
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestConversionsAreCached checks how often a conversion webhook is called.
func TestConversionsAreCached(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	p := startPair(t)
	begin := func(t *testing.T, objects int) *conversionTest {
		group := strings.ToLower(strings.ReplaceAll(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:], "_", "-")) + ".example.com"
		c := &conversionTest{t, newRun(t, p, group)}
		c.define("")
		c.fill(objects)
		return c
	}
	t.Run("counts", func(t *testing.T) { begin(t, hookObjects).counts() })
	t.Run("failing", func(t *testing.T) { begin(t, 5).failing() })
	t.Run("writing", func(t *testing.T) { begin(t, 3).writing() })
	t.Run("refusing", func(t *testing.T) { begin(t, 150).refusing() })
	t.Run("live", func(t *testing.T) { begin(t, 2).live() })
	t.Run("slow", func(t *testing.T) { begin(t, slowObjects).slow() })
}

func (c *conversionTest) counts() {
	defer c.closeWatches()
	const list = "/v2/widgets"
	c.step("GET", list, "")
	c.wantReviews("first LIST", 3, hookObjects)
	for _, query := range []string{"", "?resourceVersion=0", "?limit=7", "?labelSelector=l%3Dm3", "?fieldSelector=metadata.name%3Dw0007", "?limit=3&labelSelector=l%3Dm3"} {
		for _, accept := range []string{"json", "table", "partials", "protobuf"} {
			c.step("GET", list+query, "", "accept", accept)
		}
	}
	a, err := c.pair.sides[0].do(call{method: http.MethodGet, path: "/apis/" + c.group + list, header: http.Header{"X-Millrace-Explain": {"1"}}})
	if err != nil || a.header.Get("X-Millrace-Plan") == "" {
		c.t.Errorf("LIST is not answered from bytes: %v, %v", err, a.header)
	}
	c.step("GET", "/v2/namespaces/default/widgets/w0004", "")
	c.step("GET", "/v2/namespaces/default/widgets/w0004", "", "accept", "table")
	c.wantReviews("objects that were converted before", 0, 0)
	const watchList = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for _, label := range []string{"one", "two", "three"} {
		c.at = "watch-list " + label
		c.watch(&step{verb: "watch", words: []string{label, "/apis/" + c.group + list + watchList}, options: map[string]string{}})
	}
	c.watch(&step{verb: "watch", words: []string{"selected", "/apis/" + c.group + list + watchList + "&labelSelector=l%3Dm3"}, options: map[string]string{}})
	for _, label := range []string{"one", "two", "three"} {
		c.events(&step{words: []string{label, fmt.Sprint(hookObjects)}})
	}
	c.events(&step{words: []string{"selected", fmt.Sprint(hookObjects / 10)}})
	c.wantReviews("watch-lists", 0, 0)
	c.step("PATCH", "/v1/namespaces/default/widgets/w0003", `{"spec":{"text":"changed"}}`)
	for _, label := range []string{"one", "two", "three", "selected"} {
		c.events(&step{words: []string{label, "1"}})
	}
	c.step("GET", list, "")
	c.wantReviews("one change", 1, 1)
	c.step("DELETE", "/v1/namespaces/default/widgets/w0003", "")
	for _, label := range []string{"one", "two", "three", "selected"} {
		c.events(&step{words: []string{label, "1"}})
	}
	c.wantReviews("one deletion", 0, 0)
	c.define("described")
	c.pair.webhook.counts.take(c.path(0))
	c.step("GET", list, "")
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() { _, _ = c.pair.sides[0].get("/apis/"+c.group+list, "application/json") })
	}
	running.Wait()
	c.wantReviews("another definition", 3, hookObjects-1)
}

// failing has the webhook fail for a while. Objects that it converted before are still
// served, as from Kubernetes' watch cache. An object that it did not convert is an error at
// that version alone, until the webhook works again.
func (c *conversionTest) failing() {
	c.step("GET", "/v2/widgets", "")
	c.watch(&step{verb: "watch", words: []string{"stored", "/apis/" + c.group + "/v1/widgets?watch=true&resourceVersion=0"}, options: map[string]string{}})
	c.events(&step{words: []string{"stored", "5"}})
	for i := range c.pair.sides {
		c.pair.webhook.counts.set(c.path(i), func(counts *pathCounts) { counts.fails = true })
	}
	for _, path := range []string{"/v2/widgets", "/v2/widgets?resourceVersion=0", "/v2/widgets?limit=1", "/v1/widgets"} {
		c.step("GET", path, "")
	}
	c.step("PATCH", "/v1/namespaces/default/widgets/w0001", `{"spec":{"text":"not converted"}}`)
	c.events(&step{words: []string{"stored", "1"}})
	c.step("GET", "/v1/widgets", "")
	c.step("GET", "/v2/namespaces/default/widgets/w0001", "")
	const words = `conversion webhook for failing.example.com/v1, Kind=Widget failed: an error on the server (\"out of order\") has prevented the request from succeeding`
	for _, path := range []string{"/v2/widgets", "/v2/widgets?limit=2", "/v2/widgets?labelSelector=l"} {
		c.wantOurs(path, http.StatusInternalServerError, words)
	}
	c.wantOurs("/v2/widgets?resourceVersion=0", http.StatusInternalServerError, words)
	c.wantOurs("/v2/widgets?watch=true&resourceVersion=0", http.StatusOK, words) // an event
	c.wantOurs("/v2/namespaces/default/widgets/w0002", http.StatusOK, `"w0002"`)
	for i := range c.pair.sides {
		c.pair.webhook.counts.set(c.path(i), func(counts *pathCounts) { counts.fails = false })
	}
	c.step("GET", "/v2/widgets", "", "eventually", "yes")
	c.closeWatches()
}

// writing has the webhook fail for writes at the version that it converts to. If the stock
// server has the objects converted in its watch cache, its error is about the way back.
func (c *conversionTest) writing() {
	for i := range c.pair.sides {
		c.pair.webhook.counts.set(c.path(i), func(counts *pathCounts) { counts.fails = true })
	}
	for _, kind := range []string{"apply", "merge"} {
		const absent, stored = "/v2/namespaces/default/widgets/absent?fieldManager=me", "/v2/namespaces/default/widgets/w0001?fieldManager=me"
		body := func(name string) string {
			return fmt.Sprintf(`{"apiVersion":"%s/v2","kind":"Widget","metadata":{"name":"%s"},"spec":{"words":"changed"}}`, c.group, name)
		}
		c.step("PATCH", absent, body("absent"), "type", kind)
		for i, side := range c.pair.sides {
			a, err := side.do(call{method: http.MethodPatch, path: "/apis/" + c.group + stored, body: body("w0001"), header: http.Header{"Content-Type": {contents[kind]}}})
			if err != nil || a.status != http.StatusInternalServerError || !strings.Contains(string(a.body), "conversion webhook for writing.example.com/") {
				c.t.Errorf("%s: %s: %v, %d %.500s, want 500 with the webhook", sideNames[i], kind, err, a.status, a.body)
			}
		}
	}
}

// refusing has the webhook refuse one object of many.
func (c *conversionTest) refusing() {
	for i := range c.pair.sides {
		c.pair.webhook.counts.set(c.path(i), func(counts *pathCounts) { counts.refuses = "w0120" })
	}
	const words = "conversion webhook for refusing.example.com/v1, Kind=Widget failed: this one is not to be converted"
	c.wantOurs("/v2/widgets", http.StatusInternalServerError, words)
	c.step("GET", "/v2/namespaces/default/widgets/w0149", "") // the last one that is tried alone
	c.wantReviews("a LIST with an object that is refused", 52, 200)
	c.wantOurs("/v2/widgets", http.StatusInternalServerError, words)
	c.wantReviews("another LIST with it", 1, 1)
	for _, name := range []string{"w0001", "w0119", "w0120", "w0121"} {
		c.step("GET", "/v2/namespaces/default/widgets/"+name, "")
	}
	c.wantOurs("/v2/widgets?limit=100", http.StatusOK, `"continue":"`)
	c.wantOurs("/v2/widgets?fieldSelector=metadata.name%3Dw0003", http.StatusOK, `"w0003"`)
	c.wantReviews("other objects", 3, 3)
	for i := range c.pair.sides {
		c.pair.webhook.counts.set(c.path(i), func(counts *pathCounts) { counts.refuses = "" })
	}
	c.wantOurs("/v2/widgets", http.StatusOK, `"w0120"`)
}

// wantOurs sends a GET to our server alone. While an object cannot be converted, the stock
// server's answer depends on the state of its watch cache.
func (c *conversionTest) wantOurs(path string, status int, words string) {
	c.t.Helper()
	a, err := c.pair.sides[0].do(jsonCall(http.MethodGet, "/apis/"+c.group+path, ""))
	if err != nil || a.status != status || !strings.Contains(string(a.body), words) {
		c.t.Errorf("GET %s: %v, %d %.500s, want %d with %s", path, err, a.status, a.body, status, words)
	}
}

// live has the webhook fail for an object that a watch is to deliver.
func (c *conversionTest) live() {
	defer c.closeWatches()
	const watch = "?watch=true&resourceVersion=0"
	ours := &watchPair{c, c.openOurs("/v2/widgets" + watch), c.openOurs("/v1/widgets" + watch)}
	defer ours.close()
	ours.want(ours.v2, "ADDED", "ADDED")
	ours.want(ours.v1, "ADDED", "ADDED")
	gate := make(chan struct{})
	c.pair.webhook.counts.set(c.path(0), func(counts *pathCounts) { counts.gate = gate })
	c.patchOurs("first")
	c.patchOurs("second")
	ours.want(ours.v1, "MODIFIED", "MODIFIED")
	close(gate)
	ours.want(ours.v2, "MODIFIED", "MODIFIED")
	c.pair.webhook.counts.set(c.path(0), func(counts *pathCounts) { counts.fails = true })
	c.patchOurs("third")
	ours.want(ours.v1, "MODIFIED")
	ours.want(ours.v2, "ERROR", "")
}

// slow has the webhook answer after the timeout of a watch-list.
func (c *conversionTest) slow() {
	gate := make(chan struct{})
	c.pair.webhook.counts.set(c.path(0), func(counts *pathCounts) { counts.gate = gate })
	opened := make(chan *stream)
	for accept, selector := range map[string]string{"json": "", "table": "", "partial": "labelSelector=l&"} {
		go func() {
			opened <- c.openOursAs(accepts[accept], "/v2/widgets?"+selector+"watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1")
		}()
	}
	began := time.Now()
	a, err := c.pair.sides[0].do(jsonCall(http.MethodGet, "/apis/"+c.group+"/v2/widgets?timeout=1s", ""))
	if err != nil || a.status != http.StatusGatewayTimeout {
		c.t.Errorf("LIST whose time is over before the webhook answers: %v, %+v, want 504", err, a)
	}
	c.step("GET", "/v1/widgets?resourceVersion=0", "")
	if took := time.Since(began); took < time.Second {
		c.t.Errorf("the LIST ended after %v, before its time was over", took)
	}
	close(gate)
	for range 3 {
		s := <-opened
		added, ended := 0, false
		for frame := range s.frames {
			if bytes.Contains(frame[:min(len(frame), 40)], []byte(`"ADDED"`)) {
				added++
			}
			ended = ended || bytes.Contains(frame, []byte("k8s.io/initial-events-end"))
		}
		s.cancel()
		<-s.closed
		if added != slowObjects || !ended {
			c.t.Errorf("a watch-list of 1 s had %d initial events of %d, ended: %v", added, slowObjects, ended)
		}
	}
	// Readers that come together may each send some of the objects.
	c.wantReviews("readers of a slow webhook", 4, slowObjects)
}

const slowObjects = 63

// watchPair has two watches of our server.
type watchPair struct {
	*conversionTest
	v2, v1 *stream
}

func (w *watchPair) close() {
	for _, s := range []*stream{w.v2, w.v1} {
		s.cancel()
		for range s.frames {
		}
		<-s.closed
	}
}

// want checks the types of the next events. "" is the end of the stream.
func (w *watchPair) want(s *stream, kinds ...string) {
	w.t.Helper()
	for _, kind := range kinds {
		frame, err := s.next(false)
		if err != nil || kind == "" && frame != nil || kind != "" && !bytes.Contains(frame[:min(len(frame), 40)], []byte(`"`+kind+`"`)) {
			w.t.Fatalf("next event: %v, %.300s, want %q", err, frame, kind)
		}
	}
}

func (c *conversionTest) openOurs(path string) *stream { return c.openOursAs(accepts["json"], path) }

func (c *conversionTest) openOursAs(accept, path string) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := c.pair.sides[0].send(ctx, call{method: http.MethodGet, path: "/apis/" + c.group + path, header: http.Header{"Accept": {accept}}})
	if err != nil {
		c.t.Errorf("watch %s: %v", path, err)
		cancel()
		done := &stream{cancel: cancel, frames: make(chan json.RawMessage), closed: make(chan struct{})}
		close(done.frames)
		close(done.closed)
		return done
	}
	return follow(cancel, resp.Body)
}

func (c *conversionTest) patchOurs(text string) {
	patch := call{
		method: http.MethodPatch, path: "/apis/" + c.group + "/v1/namespaces/default/widgets/w0000", body: `{"spec":{"text":"` + text + `"}}`,
		header: http.Header{"Content-Type": {contents["merge"]}},
	}
	if a, err := c.pair.sides[0].do(patch); err != nil || a.status != http.StatusOK {
		c.t.Fatalf("patch: %v, %+v", err, a)
	}
}
