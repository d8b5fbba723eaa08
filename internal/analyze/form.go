package analyze

import (
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/analyze/price"
	"github.com/millrace/millrace/internal/analyze/profile"
)

// An audit log has no Accept header. These programs are known to ask for one form.
var (
	protobufPrograms = []string{
		"kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kube-apiserver", "cloud-controller-manager", "cluster-autoscaler",
		"cilium-agent", "cilium-operator-generic", "calico-node", "coredns", "metrics-server", "kube-state-metrics", "e2e.test", "scheduler_perf", replicaProgram,
	}
	jsonPrograms = []string{
		"OpenAPI-Generator", "Swagger-Codegen", "Kubernetes", "okhttp", "fabric8-kubernetes-client", "Java-http-client", "Apache-HttpClient", "Java", "node-fetch", "axios",
		"kubernetes-client", "python-requests", "python-httpx", "Python", "python-urllib3", "aiohttp", "curl", "Wget", "Go-http-client", "kube-rs", "ruby", "Faraday", "kubeclient",
	}
)

const kubectl = "kubectl"

// form returns the form in which a program asks for a resource. sure is false if that is
// not known, and JSON is taken: the default of most libraries.
func (o *Options) form(program, verb, resource string) (form string, sure bool) {
	if given := o.Forms[program]; given != "" {
		form, sure = given, true
	} else {
		switch {
		case slices.Contains(protobufPrograms, program):
			form, sure = price.Protobuf, true
		case program == kubectl && verb == "list":
			form, sure = price.Table, true
		case slices.ContainsFunc(jsonPrograms, func(known string) bool { return strings.EqualFold(known, program) }):
			form, sure = price.JSON, true
		default:
			form = price.JSON
		}
	}
	if form == price.Protobuf && !profile.BuiltIn(resource) {
		form = price.JSON
	}
	return form, sure
}
