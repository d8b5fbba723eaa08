package feedtest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// serveList answers a list: the newest list, or the list of an exact revision, whole or in
// pages.
func (s *APIServer) serveList(w http.ResponseWriter, query url.Values) {
	current := s.snapshot()
	revision, begin := current.revision, 0
	if text := query.Get("resourceVersion"); text != "" {
		revision, _ = strconv.ParseInt(text, 10, 64)
	}
	if token := query.Get("continue"); token != "" {
		_, _ = fmt.Sscanf(token, "%d-%d", &revision, &begin)
	}
	switch {
	case revision < current.forgotten:
		writeStatus(w, http.StatusGone, "Expired")
		return
	case revision > current.revision:
		writeStatus(w, http.StatusGatewayTimeout, "Timeout")
		return
	}
	objects, err := selected(current.objectsAt(revision), query)
	if err != nil {
		writeStatus(w, http.StatusBadRequest, "BadRequest")
		return
	}
	objects = objects[begin:]
	next := ""
	if limit, err := strconv.Atoi(query.Get("limit")); err == nil && limit < len(objects) {
		next = fmt.Sprintf(`,"continue":"%d-%d","remainingItemCount":%d`, revision, begin+limit, len(objects)-limit)
		objects = objects[:limit]
	}
	items := make([]string, len(objects))
	for i, o := range objects {
		items[i] = s.Value(o)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":"WidgetList","apiVersion":"x/v1","metadata":{"resourceVersion":"%d"%s},"items":[%s]}`, revision, next, strings.Join(items, ","))
}

// selected returns the objects that a field selector of names selects.
func selected(objects []Write, query url.Values) ([]Write, error) {
	selector, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(objects, func(w Write) bool { return !selector.Matches(fields.Set{"metadata.name": w.Name}) }), nil
}

func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, reason)
}

func writeStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprint(w, status(code, reason))
}
