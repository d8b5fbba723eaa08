package differential

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// watchExpired compares watches from revisions that neither server has. Our
// server was started after a compaction; theirs never had the first revision.
func (p *pair) watchExpired(t *testing.T, ours *side, gen *requestGenerator) {
	both := &pair{tb: t, ours: ours, theirs: p.theirs, etcd: p.etcd, namespaced: p.namespaced}
	var requests []request
	for _, resource := range []string{"configmaps", "pods", "nodes", "secrets", "deployments", "widgets"} {
		k := named(gen.kinds, resource)
		for i, accept := range watchForms {
			q := query{{"watch", "1"}, {"resourceVersion", "1"}, {"timeoutSeconds", "1"}}
			if i%3 == 0 {
				q = q.with("sendInitialEvents", "false").with("resourceVersionMatch", "NotOlderThan")
			}
			if i%4 == 0 {
				q = q.with("labelSelector", "app=web")
			}
			requests = append(requests, request{path: k.listPath(""), query: q.String(), accept: accept, as: []identity{admin, http1}[i%2]})
		}
	}
	both.watchesAgree(t, requests)
	// Kubernetes does not cache events, so it returns etcd's error.
	k := named(gen.kinds, "events")
	for _, s := range []*side{both.ours, both.theirs} {
		r := request{path: k.listPath(""), query: fmt.Sprintf("watch=1&timeoutSeconds=1&resourceVersion=%d", 1)}
		got, err := s.do(r)
		if err != nil {
			t.Fatal(err)
		}
		if status := got.failure(); got.status != http.StatusOK || status != "410 Expired" {
			t.Errorf("%s at %s: status %d, frame %q, want 200 and 410 Expired: %.300s", r, s.URL, got.status, status, got.body)
		}
	}
}

// failure returns the message of the error that is the only frame of a watch.
func (a *answer) failure() string {
	_, watch, err := a.watch()
	if err != nil || len(watch.Frames) != 1 || watch.Frames[0].Type != watchcheck.Error {
		return ""
	}
	status := watch.Frames[0].Status
	return fmt.Sprintf("%d %s", status.Code, status.Reason)
}
