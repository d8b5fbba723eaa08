package storedvalues

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// follower is a watch of a resource that has no odd values. It must go on beside them.
type follower struct {
	// seen receives the marks of the events.
	seen chan string
}

// followed is the object whose events are followed.
const followed = "/api/v1/namespaces/" + namespace + "/serviceaccounts"

// follow begins a watch at the server that is tested. It lasts as long as the test.
func (c *cluster) follow() *follower {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.ours.URL+followed+"?watch=1&timeoutSeconds=36000", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.ours.HTTPClient().Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("watch %s: %v, %v", followed, resp, err)
	}
	c.t.Cleanup(func() { _ = resp.Body.Close() })
	f := &follower{seen: make(chan string, 64)}
	go func() {
		defer close(f.seen)
		for events := json.NewDecoder(resp.Body); ; {
			var event struct {
				Type   string
				Object struct {
					Metadata struct{ Annotations map[string]string }
				}
			}
			if events.Decode(&event) != nil {
				return
			}
			if mark := event.Object.Metadata.Annotations["mark"]; mark != "" {
				f.seen <- mark
			}
		}
	}()
	return f
}

// checkFollows writes to the followed object, and waits for the event.
func (c *cluster) checkFollows(f *follower, when string) {
	c.t.Helper()
	mark := fmt.Sprint(c.random.Uint64())
	body := fmt.Sprintf(`{"metadata":{"annotations":{"mark":%q}}}`, mark)
	a, err := c.writer.do(http.MethodPatch, followed+"/default", body)
	if err != nil || !a.ok() && !isForbiddenByPolicy(a) {
		c.t.Errorf("%s: PATCH %s: %v, %v", when, followed, a, err)
	}
	if err != nil || !a.ok() {
		return
	}
	timeout := time.After(time.Minute)
	for {
		select {
		case seen, open := <-f.seen:
			switch {
			case !open:
				c.t.Fatalf("%s: the watch of %s has ended", when, followed)
			case seen == mark:
				return
			}
		case <-timeout:
			c.t.Fatalf("%s: no event of %s came: %v", when, followed, harness.ErrNotYet)
		}
	}
}
