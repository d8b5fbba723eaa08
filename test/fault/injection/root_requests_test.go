package injection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rootLog is the audit log of the root of a tree. It has the reads of the resources that a
// fleet watches, and the questions about users.
type rootLog struct{ file string }

// auditFlags are the flags by which a server writes its audit log, and the log.
func (c *cluster) auditFlags() (*rootLog, []string) {
	c.tb.Helper()
	var reads []map[string]any
	byGroup := map[string][]string{"authentication.k8s.io": {"tokenreviews"}, "authorization.k8s.io": {"subjectaccessreviews"}}
	for _, r := range watchedResources() {
		_, group, _ := strings.Cut(r.name, ".")
		byGroup[group] = append(byGroup[group], r.plural())
	}
	for group, resources := range byGroup {
		reads = append(reads, map[string]any{"group": group, "resources": resources})
	}
	policy, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"ResponseStarted", "ResponseComplete"},
		"rules": []any{map[string]any{"level": "Metadata", "resources": reads, "verbs": []string{"list", "watch", "create"}}, map[string]any{"level": "None"}},
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	log := &rootLog{filepath.Join(c.dir, "audit.log")}
	return log, []string{"--audit-policy-file=" + c.write("audit.json", string(policy)), "--audit-log-path=" + log.file}
}

// position is the size of the log. What comes later stands behind it.
func (l *rootLog) position(t *testing.T) int {
	t.Helper()
	written, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	return len(written)
}

// rootRequests counts requests at the root.
type rootRequests struct {
	// lists are those of all objects by replicas, and watches that begin with them. passedOn are
	// those of the fleet. ones are lists of one object, by which a replica confirms a history
	// or learns the newest revision.
	lists, passedOn, ones int
	// watches are those from a revision on, and reviews questions about users.
	watches, reviews int
	// listed are the first lists.
	listed []string
}

func (r *rootRequests) String() string {
	return fmt.Sprintf("%d lists of replicas, %d of the fleet, %d watches, %d lists of one object, %d reviews", r.lists, r.passedOn, r.watches, r.ones, r.reviews)
}

// The user agents of replicas themselves and of a fleet.
const replicaAgent, fleetAgent = "millrace-replica", "fleet"

// mostListed is how many lists are told.
const mostListed = 5

// since counts the requests of replicas and of the fleet behind a position of the log.
func (l *rootLog) since(t *testing.T, position int) (r rootRequests) {
	t.Helper()
	written, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(written[position:]) {
		var event struct{ Verb, RequestURI, UserAgent string }
		if json.Unmarshal(line, &event) != nil {
			continue // the last line is not whole yet
		}
		uri, err := url.Parse(event.RequestURI)
		if err != nil {
			t.Fatal(err)
		}
		q := uri.Query()
		switch {
		case strings.HasSuffix(uri.Path, "reviews"):
			r.reviews++
		case event.UserAgent != replicaAgent && event.UserAgent != fleetAgent:
			// This is the load, the verifier, or the server itself.
		case strings.Contains(uri.Path, "/kube-system/"):
			// This is the config map that has the authority of client certificates.
		case strings.Contains(q.Get("fieldSelector"), "metadata.name="), q.Get("limit") == "1":
			r.ones++
		case q.Get("watch") == "true" && q.Get("sendInitialEvents") == "":
			r.watches++
		default:
			if event.UserAgent == fleetAgent {
				r.passedOn++
			} else {
				r.lists++
			}
			if len(r.listed) < mostListed {
				r.listed = append(r.listed, event.UserAgent+" "+event.RequestURI)
			}
		}
	}
	return r
}
