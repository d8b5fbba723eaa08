package read

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/account/usage"
)

// isFullRelist reports whether the request reads all objects of its resource: a LIST or a
// WATCH with initial events, over all namespaces, from the beginning. It has no shard and no
// selector that requires a value. Its resource version is unset or 0, unless a WATCH has
// sendInitialEvents, which decides alone.
func (q *query) isFullRelist() bool {
	o := &q.options
	if q.name != "" || q.namespace != "" || o.Continue != "" || q.shard != nil || requiresValue(o.LabelSelector, o.FieldSelector) {
		return false
	}
	if q.isWatch && o.SendInitialEvents != nil {
		return *o.SendInitialEvents
	}
	return o.ResourceVersion == "" || o.ResourceVersion == "0"
}

// requiresValue reports whether a selector requires a label or field to have a value. Either
// may be nil.
func requiresValue(l labels.Selector, f fields.Selector) bool {
	if l != nil {
		requirements, _ := l.Requirements()
		for i := range requirements {
			switch requirements[i].Operator() {
			case selection.In, selection.Equals, selection.DoubleEquals:
				return true
			}
		}
	}
	if f != nil {
		for _, r := range f.Requirements() {
			if r.Operator != selection.NotEquals {
				return true
			}
		}
	}
	return false
}

// rejectInStorm records a LIST or WATCH that begins. If it comes too early in a storm,
// rejectInStorm answers with 429 and returns true. It ignores a GET.
func (q *query) rejectInStorm(w http.ResponseWriter, req *http.Request) bool {
	lists := q.tier.lists
	if lists == nil || q.name != "" {
		return false
	}
	wait := lists.Relist(&usage.Relist{
		Client: clientOf(req), Address: req.RemoteAddr, Resource: q.route.name, Full: q.isFullRelist(), Exempt: exempt(req),
	})
	if wait == 0 {
		return false
	}
	seconds := int(wait / time.Second)
	err := apierrors.NewTooManyRequests(fmt.Sprintf(
		"many clients of this kind list %s at the same time: retry after %d s", q.route.name, seconds), seconds)
	q.answerError(w, req, err)
	return true
}

// recordInitialEvents charges the client with the bytes of a WATCH's initial events. If they were a
// full relist, it adds them to the storm as well.
func (q *query) recordInitialEvents(req *http.Request, bytes int) {
	lists := q.tier.lists
	if lists == nil {
		return
	}
	client := clientOf(req)
	lists.ChargeInitialEvents(client, req.RemoteAddr, uint64(bytes))
	if q.isFullRelist() {
		lists.AddRelistBytes(client.UserAgent, q.route.name, uint64(bytes))
	}
}

// exempt reports whether the request comes from an administrator or from the control plane,
// for which the whole cluster waits. Such requests are never rejected in a storm.
func exempt(req *http.Request) bool {
	u, ok := request.UserFrom(req.Context())
	if !ok {
		return false
	}
	switch u.GetName() {
	case user.APIServerUser, user.KubeControllerManager, user.KubeScheduler:
		return true
	}
	return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}
