// Package useragent tells what is known of programs by the name in their user agent: in
// which form they ask for objects, which audit logs do not say.
package useragent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/price"
)

// Replica is how user agents of Millrace's replicas begin.
const Replica = "millrace-replica"

var (
	protobufPrograms = []string{
		"kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kube-apiserver", "cloud-controller-manager", "cluster-autoscaler",
		"cilium-agent", "cilium-operator-generic", "calico-node", "coredns", "metrics-server", "kube-state-metrics", "e2e.test", "scheduler_perf", Replica,
	}
	jsonPrograms = []string{
		"OpenAPI-Generator", "Swagger-Codegen", "Kubernetes", "okhttp", "fabric8-kubernetes-client", "Java-http-client", "Apache-HttpClient", "Java", "node-fetch", "axios",
		"kubernetes-client", "python-requests", "python-httpx", "Python", "python-urllib3", "aiohttp", "curl", "Wget", "Go-http-client", "kube-rs", "ruby", "Faraday", "kubeclient",
	}
)

// Kubectl asks for tables.
const Kubectl = "kubectl"

// kubernetesPrograms are those of Kubernetes' own releases.
var kubernetesPrograms = []string{Kubectl, "kubeadm", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kube-apiserver", "cloud-controller-manager", "e2e.test"}

// Telling reports whether a name tells what runs in a cluster: it is none of Kubernetes' own
// programs, of Millrace's replicas, or of libraries and tools that anybody may use.
func Telling(name string) bool {
	return !slices.Contains(kubernetesPrograms, name) && name != Replica && !slices.Contains(jsonPrograms, name)
}

// Form returns the form in which a program asks for a resource: price.JSON, price.Protobuf
// or price.Table. given are forms by program that the user knows. sure is false if the form
// is not known, and JSON is taken: the default of most libraries.
func Form(program, verb, resource string, given map[string]string) (form string, sure bool) {
	if form = given[program]; form != "" {
		sure = true
	} else {
		switch {
		case slices.Contains(protobufPrograms, program):
			form, sure = price.Protobuf, true
		case program == Kubectl && verb == "list":
			form, sure = price.Table, true
		case slices.ContainsFunc(jsonPrograms, func(known string) bool { return strings.EqualFold(known, program) }):
			form, sure = price.JSON, true
		default:
			form = price.JSON
		}
	}
	if form == price.Protobuf && !clusterprofile.BuiltIn(resource) {
		form = price.JSON
	}
	return form, sure
}

// AddFormFlag adds the flag with which a user names the forms of programs.
func AddFormFlag(set *pflag.FlagSet, forms *map[string]string) {
	set.StringToStringVar(forms, "form", nil, "form that a program asks for, as in my-agent=protobuf; may be repeated")
}

// CheckForms returns an error for a form that there is not.
func CheckForms(forms map[string]string) error {
	for program, form := range forms {
		if form != price.JSON && form != price.Protobuf && form != price.Table {
			return fmt.Errorf("--form=%s=%s: choose %s, %s or %s", program, form, price.JSON, price.Protobuf, price.Table)
		}
	}
	return nil
}
