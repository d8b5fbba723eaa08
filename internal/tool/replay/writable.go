package replay

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/tool/auditlog"
)

// Values of Options.Writes.
const (
	WritesNone          = "none"
	WritesOwnNamespaces = "own-namespaces"
)

// writeLabel is on the namespaces and the objects that replays make.
const writeLabel = "millrace.io/replay"

// namespacePrefix begins the names of the namespaces that replays make.
const namespacePrefix = "millrace-replay-"

// object is what a write of the log becomes: an object in a namespace of replay's own.
type object struct {
	resource   string // as in "leases.coordination.k8s.io"
	api        string // the path of group and version
	namespace  string
	name       string // empty in a create, of which the log's path has no name
	kind, body string
}

// collection is the path of the object's namespace.
func (o *object) collection() string {
	plural, _, _ := strings.Cut(o.resource, ".")
	return o.api + "/namespaces/" + o.namespace + "/" + plural
}

func (o *object) path() string { return o.collection() + "/" + o.name }

// writable is a resource whose writes are sent. Its objects do nothing: pods have a scheduler
// that does not exist, and workloads no replicas.
type writable struct {
	// api is the path of the group, in a version that every server has.
	api, kind, body string
}

const (
	idleTemplate = `{"metadata":{"labels":{"replay":"NAME"}},"spec":{"schedulerName":"millrace-replay","containers":[{"name":"app","image":"registry.example.com/app:1"}]}}`
	idleReplicas = `"spec":{"replicas":0,"selector":{"matchLabels":{"replay":"NAME"}},"template":` + idleTemplate + `}`
)

// writables are those resources, with the objects' bodies besides their metadata. NAME,
// NAMESPACE and TIME stand for those of the object.
var writables = map[string]writable{
	"configmaps": {"/api/v1", "ConfigMap", `"data":{}`},
	"secrets":    {"/api/v1", "Secret", `"data":{}`},
	"pods":       {"/api/v1", "Pod", `"spec":{"schedulerName":"millrace-replay","automountServiceAccountToken":false,"containers":[{"name":"app","image":"registry.example.com/app:1"}]}`},
	"services":   {"/api/v1", "Service", `"spec":{"clusterIP":"None"}`},
	"endpoints":  {"/api/v1", "Endpoints", `"subsets":[]`},
	"events":     {"/api/v1", "Event", `"involvedObject":{"kind":"Pod","namespace":"NAMESPACE","name":"NAME"},"reason":"Replayed","message":"an event of a log","type":"Normal"`},
	"events.events.k8s.io": {"/apis/events.k8s.io/v1", "Event", `"regarding":{"kind":"Pod","namespace":"NAMESPACE","name":"NAME"},"reason":"Replayed","action":"Replay","type":"Normal",` +
		`"reportingController":"millrace.io/replay","reportingInstance":"replay","eventTime":"TIME"`},
	"leases.coordination.k8s.io":      {"/apis/coordination.k8s.io/v1", "Lease", `"spec":{"holderIdentity":"replay","leaseDurationSeconds":40,"renewTime":"TIME"}`},
	"endpointslices.discovery.k8s.io": {"/apis/discovery.k8s.io/v1", "EndpointSlice", `"addressType":"IPv4","endpoints":[]`},
	"deployments.apps":                {"/apis/apps/v1", "Deployment", idleReplicas},
	"replicasets.apps":                {"/apis/apps/v1", "ReplicaSet", idleReplicas},
}

// Reasons for which a write of a log is not sent.
const (
	leftOutClusterWrite = "write of an object without a namespace"
	leftOutSubresource  = "write of a subresource besides status"
	leftOutResource     = "write of a resource that replay does not write"
	leftOutFailedWrite  = "write that failed"
)

// leaveOutWrite returns why a write is not sent, or "".
func leaveOutWrite(e *auditlog.Event) string {
	r := auditlog.ParseURI(e.URI)
	_, ok := writables[resourceOf(&r)]
	switch verb := string(e.Verb); {
	case verb == "deletecollection":
		return leftOutWrite
	case e.Code >= 400:
		return leftOutFailedWrite
	case len(r.Namespace) == 0:
		return leftOutClusterWrite
	case len(r.Subresource) > 0 && string(r.Subresource) != "status":
		return leftOutSubresource
	case !ok:
		return leftOutResource
	case len(e.URI) > maxURI:
		return leftOutLong
	case leadsElsewhere(e.URI, &r):
		return leftOutPath
	case verb != "create" && len(r.Name) == 0:
		return leftOutOther
	}
	return ""
}

func resourceOf(r *auditlog.Request) string {
	if len(r.Group) == 0 {
		return string(r.Resource)
	}
	return string(r.Resource) + "." + string(r.Group)
}

// newObject returns what a write becomes. Namespaces of the log become others, so that no
// object of anybody else is touched.
func newObject(r *auditlog.Request) *object {
	hash := fnv.New32a()
	_, _ = hash.Write(r.Namespace) // it never fails
	o := &object{resource: resourceOf(r), namespace: fmt.Sprintf("%s%08x", namespacePrefix, hash.Sum32()), name: string(r.Name), api: "/api/" + string(r.Version)}
	if len(r.Group) > 0 {
		o.api = "/apis/" + string(r.Group) + "/" + string(r.Version)
	}
	known := writables[o.resource]
	o.kind, o.body = known.kind, known.body
	return o
}

// maxPadding is below the 256 KiB that Kubernetes allows for annotations.
const maxPadding = 250_000

// json is an object of about so many bytes. Objects of different turns differ.
func (o *object) json(name, version string, size, turn int) []byte {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	metadata := map[string]any{"name": name, "namespace": o.namespace, "labels": map[string]string{writeLabel: "true"}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	metadata["annotations"] = map[string]string{writeLabel: o.padding(size-len(o.body)-300, turn)}
	encoded, err := json.Marshal(metadata)
	if err != nil {
		panic(err) // it is made of text
	}
	body := strings.NewReplacer("NAMESPACE", o.namespace, "NAME", labelValue(name), "TIME", now).Replace(o.body)
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":%s,%s}`, strings.TrimPrefix(strings.TrimPrefix(o.api, "/apis/"), "/api/"), o.kind, encoded, body)
}

// patch changes an object of that size.
func (o *object) patch(size, turn int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, writeLabel, o.padding(size-len(o.body)-300, turn))
}

// padding is text that differs between turns.
func (o *object) padding(length, turn int) string {
	length = max(0, min(length, maxPadding))
	begin := fmt.Sprintf("%d %s/%s ", turn, o.namespace, o.name)
	return begin + strings.Repeat("lorem ipsum ", length/12+1)[:max(0, length-len(begin))]
}

// labelValue is a name as a label may have it.
func labelValue(name string) string {
	return strings.Trim(name[:min(len(name), 63)], "-._")
}

// isWrite reports whether a verb is one of those that are sent as writes.
func isWrite(verb string) bool {
	return verb == "create" || verb == "update" || verb == "patch" || verb == "delete"
}
