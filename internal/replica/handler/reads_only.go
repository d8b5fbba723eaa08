package handler

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// questions are the resources whose creation asks something and stores nothing.
var questions = map[schema.GroupResource]bool{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
}

// streams are the subresources by which a GET reaches into a node, a pod or a service.
var streams = map[string]bool{"attach": true, "exec": true, "portforward": true, "proxy": true}

// mayWrite reports whether a request might change something. A GET can: over an upgraded
// connection it runs a command, and a proxy sends it to any program. A path that is not clean
// counts, because servers on the way may take it for another path.
func mayWrite(req *http.Request, info *request.RequestInfo) bool {
	if upstream.IsUnclean(req.URL.Path) {
		return true
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		if !info.IsResourceRequest {
			return false
		}
		upgraded := req.Header.Get("Upgrade") != "" && info.Subresource != "" && info.Subresource != "log"
		return info.Verb == "proxy" || streams[info.Subresource] || upgraded
	case http.MethodPost:
		asks := info.IsResourceRequest && info.Subresource == "" && info.Name == "" &&
			questions[schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}]
		return !asks
	}
	return true
}

// refuseWrite returns the error of a request that might change something. address is where to
// send the request instead. It is "" for users who need not know that address.
func refuseWrite(info *request.RequestInfo, address string) error {
	where := "send it to the API server itself, with the kubeconfig that leads there"
	if address != "" {
		where = "send it to the API server at " + address + ", with the kubeconfig that leads there"
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: "this replica answers reads only, and the request might change something: " + where,
		Details: &metav1.StatusDetails{Group: info.APIGroup, Kind: info.Resource, Name: info.Name},
	}}
}
