// Package kube runs Kubernetes' own API server, controller manager and scheduler in this
// process. It is the only package of the programs that imports k8s.io/kubernetes, which is
// not published as a library. So most of an upgrade of Kubernetes is in this package.
//
// A caller makes Options, sets flags, and calls Apply. It builds a Server with Hooks, where
// Millrace takes over, and runs it. Without hooks, the server is the stock one. For a
// server that only reads, it makes ReplicaOptions and a Replica instead.
//
//	request ─► frontServer ─► handlerChain: conditional discovery, Kubernetes' filters
//	                               │
//	                               ▼
//	           Hooks.Reads: GET, LIST and WATCH from bytes
//	                               │ all other requests
//	                               ▼
//	           documents (discovery, OpenAPI) ─► aggregator ─► kube-apiserver ─► custom resources
//
// Some functions of this module do the same as a function of Kubernetes, with a
// difference somewhere. The last line of such a function's comment begins with
// "Upstream:" and names its counterpart by import path and identifier. A method is
// TYPE.METHOD there. The two have to be compared at each upgrade of Kubernetes.
// Package counterpart lists them all, and tells what changed.
package kube
