package replay

import (
	"testing"

	"github.com/millrace/millrace/internal/tool/auditlog"
)

// TestPathsThatLeadElsewhere has requests that an attacker may have sent to get them into the log.
// With escaped slashes they would reach a program that the server is a proxy of, with the
// operator's rights.
func TestPathsThatLeadElsewhere(t *testing.T) {
	t.Parallel()
	p := &planner{writes: true}
	for uri, want := range map[string]string{
		"/api/v1%2Fnamespaces%2Fdefault%2Fservices%2Fx:80%2Fproxy%2Fdel/namespaces/n/configmaps": leftOutPath,
		"/api/v1/namespaces/n/configmaps": "", "/apis/apps/v1/namespaces/n/deployments": "",
		"/apis/apps/v1%252f/namespaces/n/deployments": leftOutPath, "/api/x/namespaces/n/configmaps": leftOutPath,
	} {
		if got := p.leaveOut(&auditlog.Event{Verb: []byte("create"), URI: []byte(uri), Code: 201}); got != want {
			t.Errorf("create %s is left out as %q, want %q", uri, got, want)
		}
	}
	for uri, want := range map[string]string{
		"/api/v1/nodes%2fn%2Fproxy/metrics": leftOutPath, "/api/v1/nodes/..%2f..%2fmetrics": leftOutPath, "/openapi/v3/../../metrics": leftOutPath,
		"/api/v1/nodes/n": "", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode": "", "/openapi/v3/apis/apps/v1": "", "/apis/x.io/v1alpha1/things": "",
	} {
		if got := p.leaveOut(&auditlog.Event{Verb: []byte("get"), URI: []byte(uri), Code: 200}); got != want {
			t.Errorf("get %s is left out as %q, want %q", uri, got, want)
		}
	}
}
