// Package read answers GET and LIST of stored objects from bytes, inside
// Kubernetes' handler chain: authentication, authorization, audit, fairness and
// deadlines are done when a request comes here.
//
// A request that the package cannot answer byte for byte as Kubernetes would is
// passed on to Kubernetes' own handler, never approximated. Request.go decides
// which those are; each has a reason that is counted.
package read
