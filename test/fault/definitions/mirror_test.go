package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// watchEvent is an event of a watch.
type watchEvent struct {
	Type   string
	Object struct {
		Code     int
		Message  string
		Metadata struct{ Name, Namespace, UID, ResourceVersion string }
	}
}

// stream reads the events of a watch until it ends. use is called with each event, until it
// returns false. The key is that of the watch's answer; an event of an error counts, too.
func (c *client) stream(ctx context.Context, req request, use func(*watchEvent) bool) *answer {
	// The watch ends by itself. More time means that it does not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	resp, err := c.open(ctx, req.call)
	if err != nil {
		return &answer{err: err}
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode != http.StatusOK {
		a.body, a.err = io.ReadAll(resp.Body)
		return a
	}
	events := json.NewDecoder(resp.Body)
	for more := true; ; {
		var e watchEvent
		if err := events.Decode(&e); err != nil {
			if !errors.Is(err, io.EOF) {
				a.err = err
			}
			return a
		}
		if e.Type == "ERROR" {
			c.side.tally.count("event of "+req.verb, req.kind, strconv.Itoa(e.Object.Code))
			c.side.tally.explain("event of "+req.verb, req.kind, strconv.Itoa(e.Object.Code), e.Object.Message, req.path)
		}
		if more { // the rest is read, so that the connection stays
			more = use(&e)
		}
	}
}

// watch follows a watch that ends after a second.
func (r *requester) watch(ctx context.Context, req request) {
	a := r.client.stream(ctx, req, func(*watchEvent) bool { return true })
	r.count(req, a)
}

// mirror follows all objects of a definition by watches. Each begins where the one before
// ended. It checks that the events lead from one state to the next: none is lost, repeated or
// out of order.
type mirror struct {
	*definition
	side   *side
	client *client
	// held has the revisions of the objects by namespace, name and UID.
	held map[string]int64
	// revision is where the next watch begins, 0 for a new list.
	revision int64
}

func newMirror(s *side, d *definition, c *client) *mirror {
	return &mirror{definition: d, side: s, client: c}
}

// run follows until the context ends.
func (m *mirror) run(ctx context.Context) {
	for ctx.Err() == nil {
		if m.revision == 0 {
			if !m.list(ctx) {
				select { // until the definition is served
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
			continue
		}
		m.follow(ctx)
	}
}

func (m *mirror) request(query string) request {
	return request{verb: "mirror", kind: "json", call: call{
		method: http.MethodGet, path: "/apis/" + group + "/" + served2 + "/" + m.Plural + "?" + query, accept: accepts["json"],
	}}
}

// list begins anew. It returns false if the definition is not served now.
func (m *mirror) list(ctx context.Context) bool {
	held, revision := m.read(ctx)
	if held == nil {
		return false
	}
	m.held, m.revision = held, revision
	return true
}

// check compares the mirror with a list.
func (m *mirror) check(ctx context.Context) error {
	if m.revision > 0 {
		m.follow(ctx)
	}
	if held, _ := m.read(ctx); m.revision > 0 && !maps.Equal(held, m.held) {
		return fmt.Errorf("%s: the mirror at %d has %v, and a list has %v", m.Plural, m.revision, m.held, held)
	}
	return nil
}

// read reads the revisions of all objects, and that of the list. It returns nil if there is
// no list.
func (m *mirror) read(ctx context.Context) (held map[string]int64, revision int64) {
	a := m.client.send(ctx, m.request("").call)
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct {
			Metadata struct{ Name, Namespace, UID, ResourceVersion string }
		}
	}
	if failure := a.failure(); failure != "" {
		m.side.tally.violate("list of a mirror "+failure, fmt.Sprint(a.err))
	}
	if a.status != http.StatusOK || json.Unmarshal(a.body, &list) != nil {
		return nil, 0
	}
	held = map[string]int64{}
	for _, item := range list.Items {
		o := item.Metadata
		held[o.Namespace+"/"+o.Name+"/"+o.UID], _ = strconv.ParseInt(o.ResourceVersion, 10, 64)
	}
	revision, _ = strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64)
	return held, revision
}

// follow reads one watch.
func (m *mirror) follow(ctx context.Context) {
	req := m.request(fmt.Sprintf("watch=1&timeoutSeconds=3&allowWatchBookmarks=true&resourceVersion=%d", m.revision))
	failed := false
	a := m.client.stream(ctx, req, func(e *watchEvent) bool {
		failed = !m.apply(e)
		return !failed
	})
	if failure := a.failure(); failure != "" {
		m.side.tally.count(req.verb, req.kind, failure)
		m.side.tally.violate("watch of a mirror "+failure+" over "+m.client.proto, fmt.Sprint(a.err))
	} else {
		m.side.tally.count(req.verb, req.kind, strconv.Itoa(a.status))
	}
	if failed || a.err != nil || a.status != http.StatusOK {
		m.revision = 0
	}
}

// apply applies an event. It returns false if the mirror must begin anew.
func (m *mirror) apply(e *watchEvent) bool {
	o := e.Object.Metadata
	at, err := strconv.ParseInt(o.ResourceVersion, 10, 64)
	if e.Type == "ERROR" {
		return false
	}
	key := o.Namespace + "/" + o.Name + "/" + o.UID
	before, known := m.held[key]
	text := fmt.Sprintf("%s %s at %s, after %d; the object was at %d", e.Type, key, o.ResourceVersion, m.revision, before)
	// A bookmark may repeat the revision of the last event.
	if err != nil || at < m.revision || at == m.revision && e.Type != "BOOKMARK" {
		m.side.tally.violate("events of a watch are not in order", text)
		return false
	}
	m.revision = at
	switch e.Type {
	case "BOOKMARK":
		return true
	case "ADDED":
		if known {
			m.side.tally.violate("object is added twice", text)
			return false
		}
	case "MODIFIED", "DELETED":
		if !known {
			m.side.tally.violate("object is changed that was not added", text)
			return false
		}
	}
	m.held[key] = at
	if e.Type == "DELETED" {
		delete(m.held, key)
	}
	return true
}

// TestMirror checks that a mirror finds events that are lost, repeated or out of order.
func TestMirror(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ events, want string }{
		{"ADDED a 2, MODIFIED a 3, BOOKMARK - 3, BOOKMARK - 5, DELETED a 6, ADDED a 7", ""},
		{"ADDED a 2, ADDED a 3", "object is added twice"},
		{"MODIFIED a 2", "object is changed that was not added"},
		{"ADDED a 2, DELETED a 3, DELETED a 4", "object is changed that was not added"},
		{"ADDED a 3, ADDED b 2", "events of a watch are not in order"},
		{"ADDED a 3, ADDED b 3", "events of a watch are not in order"},
		{"BOOKMARK - 5, ADDED b 4", "events of a watch are not in order"},
	} {
		m := &mirror{side: &side{tally: newTally()}, held: map[string]int64{}, revision: 1}
		for text := range strings.SplitSeq(c.events, ", ") {
			var e watchEvent
			if _, err := fmt.Sscan(text, &e.Type, &e.Object.Metadata.Name, &e.Object.Metadata.ResourceVersion); err != nil {
				t.Fatal(err)
			}
			m.apply(&e)
		}
		found := m.side.tally.violations()
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0], c.want)) {
			t.Errorf("%s: found %q, want %q", c.events, found, c.want)
		}
	}
}
