package dashboard

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Prefix is the path of the reports. A ClusterRole names it, with a star at its end, in
// nonResourceURLs.
const Prefix = "/debug/millrace/"

// handler serves reports.
type handler struct {
	reports map[string]func() any
	names   []string
}

// Handler serves the source's reports below Prefix. It authorizes nothing: the caller
// lets only authorized requests reach it.
func Handler(s Source) http.Handler { return newHandler(s, time.Now) }

func newHandler(s Source, now func() time.Time) *handler {
	reports := s.reports(now)
	return &handler{reports: reports, names: slices.Sorted(maps.Keys(reports))}
}

// Index lists the paths of the reports.
type Index struct {
	Paths []string `json:"paths"`
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Content-Type", "application/json")
	name, below := strings.CutPrefix(req.URL.Path, Prefix)
	report := h.reports[name]
	index := name == "" || req.URL.Path+"/" == Prefix
	switch {
	case !index && (!below || report == nil):
		h.refuse(w, req, http.StatusNotFound, metav1.StatusReasonNotFound,
			fmt.Sprintf("there is no report at %s; there are %s", req.URL.Path, strings.Join(h.names, ", ")))
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		h.refuse(w, req, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "reports can only be read: use GET")
	case index:
		write(w, req, http.StatusOK, Index{Paths: h.paths()})
	default:
		write(w, req, http.StatusOK, report())
	}
}

func (h *handler) paths() []string {
	paths := make([]string, len(h.names))
	for i, name := range h.names {
		paths[i] = Prefix + name
	}
	return paths
}

// refuse answers with a Status. kubectl shows its message.
func (h *handler) refuse(w http.ResponseWriter, req *http.Request, code int, reason metav1.StatusReason, message string) {
	write(w, req, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func write(w http.ResponseWriter, req *http.Request, code int, v any) {
	w.WriteHeader(code)
	if req.Method == http.MethodHead {
		return
	}
	encoder := json.NewEncoder(w)
	if pretty := req.URL.Query()["pretty"]; pretty != nil && pretty[0] != "false" && pretty[0] != "0" {
		encoder.SetIndent("", "  ")
	}
	// All types can be encoded, so an error means that the client is gone.
	_ = encoder.Encode(v)
}
