// Package kube runs Kubernetes' own API server, controller manager and
// scheduler in this process. It is the only package that imports
// k8s.io/kubernetes, which is not published as a library: what changes there
// with a version changes here alone.
//
// A caller makes Options, sets flags, builds a Server with Hooks where Millrace
// takes over, and runs it. Without hooks the server is the stock one.
package kube
