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
// Some functions of this module do the same as a function of Kubernetes, with a
// difference somewhere. The last line of such a function's comment begins with
// "Upstream:" and names its counterpart by import path and identifier. A method is
// TYPE.METHOD there. The two have to be compared at each upgrade of Kubernetes.
// Package counterpart lists them all, and tells what changed.
package kube
