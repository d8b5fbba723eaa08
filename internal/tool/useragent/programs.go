package useragent

import (
	"slices"
	"strings"
)

// ReplicaProgram is the user agent name of Millrace's replicas.
const ReplicaProgram = "millrace-replica"

// KubectlProgram is the user agent name of kubectl, which requests tables in LISTs.
const KubectlProgram = "kubectl"

var (
	// kubernetesPrograms are the programs of Kubernetes' own releases.
	kubernetesPrograms = []string{
		KubectlProgram, "kubeadm", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy",
		"kube-apiserver", "cloud-controller-manager", "e2e.test",
	}
	// protobufPrograms request protobuf: parts of Kubernetes, and add-ons that are common in
	// clusters.
	protobufPrograms = []string{
		"kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kube-apiserver",
		"cloud-controller-manager", "cluster-autoscaler", "cilium-agent", "cilium-operator-generic",
		"calico-node", "coredns", "metrics-server", "kube-state-metrics", "e2e.test",
		"scheduler_perf", ReplicaProgram,
	}
	// libraries are client libraries and tools so common that their names identify no owner. All
	// request JSON.
	libraries = []string{
		// generated clients, and clients in Java and JavaScript
		"OpenAPI-Generator", "Swagger-Codegen", "Kubernetes", "okhttp", "fabric8-kubernetes-client",
		"Java-http-client", "Apache-HttpClient", "Java", "node-fetch", "axios", "kubernetes-client",
		// clients in Python
		"python-requests", "python-httpx", "Python", "python-urllib3", "aiohttp",
		// clients in Go, Rust and Ruby, and command line tools
		"Go-http-client", "kube-rs", "ruby", "Faraday", "kubeclient", "curl", "Wget",
	}
)

// isLibrary reports whether a name is in libraries. Versions of a library differ in case.
func isLibrary(name string) bool {
	return slices.ContainsFunc(libraries, func(library string) bool { return strings.EqualFold(library, name) })
}

// IdentifiesWorkload reports whether the name of a program says what its owner runs, and so must be
// hashed before it is shared. Add-ons such as coredns and cilium-agent do: the owner chose them.
// Names of Kubernetes' programs, of Millrace's replicas and of common client libraries do not.
func IdentifiesWorkload(name string) bool {
	return !slices.Contains(kubernetesPrograms, name) && name != ReplicaProgram && !isLibrary(name)
}
