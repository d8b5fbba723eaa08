// Package kube runs Kubernetes' own API server, controller manager and scheduler in this
// process. It is the only package that imports k8s.io/kubernetes, which is not published
// as a library. So most of an upgrade of Kubernetes is in this package.
//
// A caller makes Options, sets flags, and builds a Server with Hooks, where Millrace
// takes over. Then it runs the server. Without hooks, the server is the stock one.
//
//	request ─► frontServer ─► handlerChain: conditional discovery, Kubernetes' filters
//	                               │
//	                               ▼
//	           Hooks.Reads: GET, LIST and WATCH from bytes
//	                               │ everything else
//	                               ▼
//	           documents (discovery, OpenAPI) ─► aggregator ─► kube-apiserver ─► custom resources
//
// Some functions here do the same as one of Kubernetes, with a difference somewhere.
// Each of them carries a line that begins with "Upstream:" and names its counterpart.
// Both have to be compared at each upgrade: grep -n 'Upstream: ' internal/kube/*.go lists
// them.
package kube
