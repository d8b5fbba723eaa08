package auditlog

import (
	"encoding/json"
	"strings"
	"time"
)

// googleEntry is a LogEntry of Cloud Logging with an AuditLog of a Kubernetes API server, as
// the references of both describe them.
type googleEntry struct {
	Timestamp time.Time `json:"timestamp"`
	Operation struct {
		ID    string `json:"id"`
		First bool   `json:"first"`
		Last  bool   `json:"last"`
	} `json:"operation"`
	ProtoPayload struct {
		ServiceName        string `json:"serviceName"`
		MethodName         string `json:"methodName"`
		ResourceName       string `json:"resourceName"`
		AuthenticationInfo struct {
			PrincipalEmail string `json:"principalEmail"`
		} `json:"authenticationInfo"`
		RequestMetadata struct {
			CallerIP                string `json:"callerIp"`
			CallerSuppliedUserAgent string `json:"callerSuppliedUserAgent"`
		} `json:"requestMetadata"`
		Status struct {
			Code int `json:"code"`
		} `json:"status"`
	} `json:"protoPayload"`
}

// httpStatus has the HTTP status of each google.rpc.Code.
var httpStatus = map[int]int{
	0: 200, 1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401,
}

// googleEvent converts a record with a protoPayload to an event. ok is false if the record is of
// a service other than Kubernetes.
//
// methodName is as in "io.k8s.core.v1.pods.list", and resourceName as in
// "core/v1/namespaces/default/pods". The record lacks the parameters of the URI, and the time at
// which the request ended.
func googleEvent(record []byte) (e *Event, ok bool) {
	var g googleEntry
	p := &g.ProtoPayload
	if json.Unmarshal(record, &g) != nil || p.ServiceName != "k8s.io" && !strings.HasPrefix(p.MethodName, "io.k8s.") {
		return nil, false
	}
	uri := "/apis/" + p.ResourceName
	if core, found := strings.CutPrefix(p.ResourceName, "core/"); found {
		uri = "/api/" + core
	}
	e = &Event{
		AuditID:   []byte(g.Operation.ID),
		Stage:     []byte(StageComplete),
		Verb:      []byte(p.MethodName[strings.LastIndexByte(p.MethodName, '.')+1:]),
		URI:       []byte(uri),
		User:      []byte(p.AuthenticationInfo.PrincipalEmail),
		UserAgent: []byte(p.RequestMetadata.CallerSuppliedUserAgent),
		Address:   []byte(p.RequestMetadata.CallerIP),
		Code:      httpStatus[p.Status.Code],
	}
	if string(e.Verb) == "watch" && g.Operation.First && !g.Operation.Last {
		e.Stage = []byte(StageStarted)
	}
	if !g.Timestamp.IsZero() {
		e.Received = g.Timestamp.UnixMicro()
		e.StageReached = e.Received
	}
	return e, true
}
