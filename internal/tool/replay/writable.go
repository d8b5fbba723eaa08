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

// writeLabel is the label of the namespaces and the objects that replays make.
const writeLabel = "millrace.io/replay"

// namespacePrefix is the prefix of the names of the namespaces that replays make.
const namespacePrefix = "millrace-replay-"

// object is the target of a write: an object in a namespace of replay's own.
type object struct {
	resource   string // as in "leases.coordination.k8s.io"
	api        string // the path of group and version
	namespace  string
	name       string // empty for a create, which has no name in the path
	kind, body string // as in writable
}

// collectionPath returns the path of the resource in the object's namespace.
func (o *object) collectionPath() string {
	plural, _, _ := strings.Cut(o.resource, ".")
	return o.api + "/namespaces/" + o.namespace + "/" + plural
}

// path returns the path of the object.
func (o *object) path() string { return o.collectionPath() + "/" + o.name }

// writable is a resource whose writes are sent. Its objects do nothing: pods have a scheduler
// that does not exist, and workloads have no replicas.
type writable struct {
	api  string // the path of the group, in a version that every server has
	kind string
	// body is the JSON of an object after its metadata. NAME, NAMESPACE and TIME stand for the
	// name, the namespace and the present time.
	body string
}

const (
	idleTemplate = `{"metadata":{"labels":{"replay":"NAME"}},"spec":{"schedulerName":"millrace-replay","containers":[{"name":"app","image":"registry.example.com/app:1"}]}}`
	idleReplicas = `"spec":{"replicas":0,"selector":{"matchLabels":{"replay":"NAME"}},"template":` + idleTemplate + `}`
)

// writables are the resources whose writes are sent, by name.
var writables = map[string]writable{
	"configmaps": {"/api/v1", "ConfigMap", `"data":{}`},
	"secrets":    {"/api/v1", "Secret", `"data":{}`},
	"pods":       {"/api/v1", "Pod", `"spec":{"schedulerName":"millrace-replay","automountServiceAccountToken":false,"containers":[{"name":"app","image":"registry.example.com/app:1"}]}`},
	"services":   {"/api/v1", "Service", `"spec":{"clusterIP":"None"}`},
	"endpoints":  {"/api/v1", "Endpoints", `"subsets":[]`},
	"events":     {"/api/v1", "Event", `"involvedObject":{"kind":"Pod","namespace":"NAMESPACE","name":"NAME"},"reason":"Replayed","message":"an event of a log","type":"Normal"`},
	"events.events.k8s.io": {"/apis/events.k8s.io/v1", "Event",
		`"regarding":{"kind":"Pod","namespace":"NAMESPACE","name":"NAME"},"reason":"Replayed","action":"Replay","type":"Normal",` +
			`"reportingController":"millrace.io/replay","reportingInstance":"replay","eventTime":"TIME"`},
	"leases.coordination.k8s.io": {"/apis/coordination.k8s.io/v1", "Lease",
		`"spec":{"holderIdentity":"replay","leaseDurationSeconds":40,"renewTime":"TIME"}`},
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

// leaveOutWrite returns the reason for which a write is not sent, or "".
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

// resourceOf returns a request's resource with its group, as in "leases.coordination.k8s.io".
func resourceOf(r *auditlog.Request) string {
	if len(r.Group) == 0 {
		return string(r.Resource)
	}
	return string(r.Resource) + "." + string(r.Group)
}

// newObject returns the object that a write of the log is sent to. It lies in a namespace whose
// name is derived from the namespace in the log, so that a replay changes only objects of its own.
func newObject(r *auditlog.Request) *object {
	hash := fnv.New32a()
	_, _ = hash.Write(r.Namespace) // it never fails
	o := &object{resource: resourceOf(r), namespace: fmt.Sprintf("%s%08x", namespacePrefix, hash.Sum32()), name: string(r.Name),
		api: "/api/" + string(r.Version)}
	if len(r.Group) > 0 {
		o.api = "/apis/" + string(r.Group) + "/" + string(r.Version)
	}
	known := writables[o.resource]
	o.kind, o.body = known.kind, known.body
	return o
}

const (
	// maxPadding is below the 256 KiB that Kubernetes allows for annotations.
	maxPadding = 250_000
	// frameBytes is about the size of an object without its body and its padding.
	frameBytes = 300
)

// encode returns the object as JSON of about size bytes. version is the resource version that it
// must have, "" for any. Objects with different numbers differ.
func (o *object) encode(name, version string, size, number int) []byte {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	metadata := map[string]any{"name": name, "namespace": o.namespace, "labels": map[string]string{writeLabel: "true"}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	metadata["annotations"] = map[string]string{writeLabel: o.padding(size-len(o.body)-frameBytes, number)}
	encoded, err := json.Marshal(metadata)
	if err != nil {
		panic(err) // maps of strings can always be encoded
	}
	body := strings.NewReplacer("NAMESPACE", o.namespace, "NAME", labelValue(name), "TIME", now).Replace(o.body)
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":%s,%s}`,
		strings.TrimPrefix(strings.TrimPrefix(o.api, "/apis/"), "/api/"), o.kind, encoded, body)
}

// mergePatch returns a patch that changes the object, and leaves it at about size bytes.
func (o *object) mergePatch(size, number int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, writeLabel, o.padding(size-len(o.body)-frameBytes, number))
}

// padding returns text of about length bytes. Different numbers have different texts.
func (o *object) padding(length, number int) string {
	length = max(0, min(length, maxPadding))
	prefix := fmt.Sprintf("%d %s/%s ", number, o.namespace, o.name)
	return prefix + strings.Repeat("lorem ipsum ", length/12+1)[:max(0, length-len(prefix))]
}

// labelValue returns a name as the value of a label may be: short, and with a letter or digit at
// both ends.
func labelValue(name string) string {
	return strings.Trim(name[:min(len(name), 63)], "-._")
}

// isWrite reports whether replay can send requests with a verb as writes.
func isWrite(verb string) bool {
	return verb == "create" || verb == "update" || verb == "patch" || verb == "delete"
}
