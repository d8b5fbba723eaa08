package benchtest

import (
	"net/http"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// serveNode answers the writes of kubelets. It returns false for another request.
func serveNode(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(r.URL.Path, "/")
	switch last := parts[len(parts)-1]; {
	case r.Method == http.MethodPost && (last == "nodes" || last == "csinodes"):
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPatch && last == "status" && parts[len(parts)-3] == "nodes":
	case strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"):
		lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
		raw, err := lease.Marshal()
		if err != nil {
			panic(err)
		}
		envelope := runtime.Unknown{Raw: raw}
		body, err := envelope.Marshal()
		if err != nil {
			panic(err)
		}
		w.Write(append([]byte("k8s\x00"), body...))
	default:
		return false
	}
	return true
}
