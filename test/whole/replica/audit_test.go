package replica

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// auditLog is the audit log of an upstream, which has each request.
type auditLog struct{ file string }

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}`

// audited returns flags by which a server writes an audit log.
func audited(t *testing.T) (*auditLog, []string) {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.json"), &auditLog{filepath.Join(dir, "audit.log")}
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return log, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log.file}
}

// feedRequests are the requests by which a replica has followed a resource.
type feedRequests struct {
	// loads are lists of all objects, and watches that begin with them.
	loads []string
	// resumed are watches from a revision, and confirmations are lists of one object.
	resumed, confirmations []string
}

// position returns the size of the log, from which feeds reads on.
func (l *auditLog) position(t *testing.T) int {
	t.Helper()
	return len(must(os.ReadFile(l.file))(t))
}

// count returns how many lines behind a position are wanted.
func (l *auditLog) count(t *testing.T, position int, want func(line string) bool) (n int) {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(l.file))(t)[position:])) {
		if want(line) {
			n++
		}
	}
	return n
}

// feeds returns the requests of replicas for a resource behind a position of the log.
func (l *auditLog) feeds(t *testing.T, resource string, position int) (all feedRequests) {
	t.Helper()
	for line := range bytes.Lines(must(os.ReadFile(l.file))(t)[position:]) {
		var event struct {
			Stage, Verb, RequestURI, UserAgent string
			ObjectRef                          struct{ Resource, Subresource string }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			continue // the last line is not whole yet
		}
		if event.Stage != "RequestReceived" || event.ObjectRef.Resource != resource || event.UserAgent != "millrace-replica" || event.Verb != "list" && event.Verb != "watch" {
			continue
		}
		uri := must(url.Parse(event.RequestURI))(t)
		q := uri.Query()
		switch {
		case strings.Contains(uri.Path, "/kube-system/"):
			// This is the config map that has the authority of client certificates.
		case strings.Contains(q.Get("fieldSelector"), "metadata.name="), q.Get("limit") == "1":
			all.confirmations = append(all.confirmations, event.RequestURI)
		case q.Get("watch") == "true" && q.Get("sendInitialEvents") == "":
			all.resumed = append(all.resumed, event.RequestURI)
		default:
			all.loads = append(all.loads, event.RequestURI)
		}
	}
	return all
}

// startAudited starts a stock server with an audit log.
func startAudited(t *testing.T, args ...string) (*harness.Server, *auditLog) {
	t.Helper()
	log, flags := audited(t)
	args = append(append(flags, "--read-path=kubernetes", "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false"), args...)
	return harness.Start(t, harness.ShortTempDir(t), args...), log
}
