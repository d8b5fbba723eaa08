package usage

import (
	"fmt"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// otherMinor begins advice about forms that only the upstream can make.
const otherMinor = "the upstream is of another minor version, so only objects as it sends them are answered here: "

// adviceByReason says which requests the server could answer from bytes instead. Keys
// are the reasons for which packages read and replica/handler pass requests on, as in
// serverreport.Shape.Reason.
var adviceByReason = map[string]string{
	"resource":       "what other API servers serve, and subresources, are not kept here as bytes; ask for them less often",
	"path":           "use the resource's own path, without empty parts and without a slash at its end",
	"parameter":      "its parameters are malformed, or mean nothing to a GET or LIST: send those of metav1.ListOptions alone",
	"selector":       "it selects by a field that only the resource's definition knows: select by a label, which is found by an index",
	"accept":         "ask for application/json or application/vnd.kubernetes.protobuf: YAML, CBOR and indented tables are encoded again for each request",
	"audit":          "the audit policy logs bodies of answers: log reads of this resource at the level Metadata or Request",
	"odd-object":     "an object of this resource cannot be read, or is altered on its way out: the log names those that are unreadable; repair or delete them",
	"history":        "it asks for a revision that the cache does not hold any more: take pages sooner, or raise --history-window",
	"loading":        "this replica does not hold the resource yet: name it with --follow, so that it is held from the start",
	"unproven":       "the resource changes so seldom that this replica cannot prove in time how new it is: read with resourceVersion=0, or let the replica follow etcd or another Millrace",
	"conversion":     "a webhook does not convert the first objects of the watch: repair the webhook, or ask for a version that needs none",
	"upgrade":        "it watches over a web socket: watch over HTTP",
	"connection":     "its connection was not accepted by this server itself",
	"skew-table":     otherMinor + "ask for whole objects, such as kubectl -o json, or run a replica of the upstream's version",
	"skew-metadata":  otherMinor + "ask for whole objects, or run a replica of the upstream's version",
	"skew-indented":  otherMinor + "send Accept: application/json and no parameter pretty",
	"skew-parameter": "the upstream is of another minor version, which may read a parameter in another way: leave out parameters that metav1.ListOptions does not have",
	"skew-page":      "the upstream is of another minor version, whose tokens for pages differ: list with resourceVersion=0, or without limit",
	"skew-shard":     "the upstream is of another minor version, which may not know shards: run a replica of the upstream's version",
	"skew-error":     "the upstream is of another minor version, and answers with errors in its own words: look why the client gets an error so often",
	"skew-bookmark":  "the upstream is of another minor version, and has sent no bookmark of this kind yet: wait a minute, or enable watch-lists at the upstream",
	"not-read":       "subresources are not kept here; ask for them less often",
	"refused":        "the user of --kubeconfig may not list and watch the resource: give it the right",
	"silent":         "the feed of the resource is broken while the upstream answers others: the log says why",
	"memory":         "the replica has no memory left for the resource: give it more, or name the resource with --follow",
	"excluded":       "the replica does not hold the resource: name it with --follow, or take it out of --exclude",
	"not-named":      "--follow-only is set: name the resource with --follow",
	"user":           "the replica does not know the user: use a token, or give the replica the authority of the client's certificates",
	"denied":         "the upstream has not confirmed the user's right: give it, or find out why the client asks in vain",
	"impersonation":  "it acts as another user, which only the upstream may decide: ask as the user itself",
	"version-skew":   "the upstream's version is too far away: run a replica of that version",
	"other-version":  "it asks for a version that cannot be made of the one that is followed: ask for the version that discovery lists first",
	"other-etcd":     "etcd is not known to have the resource: check --etcd-prefix and --etcd-servers-overrides",
	"encoding":       "an encoder did something unexpected: ask for another form, such as protobuf or JSON",
}

// passedOn returns advice about requests that were passed on.
func (p *requestPattern) passedOn() string {
	if p.Path != serverreport.PathPassedOn {
		return ""
	}
	sentence := fmt.Sprintf("This is passed on (%s), and costs as much as at kube-apiserver", p.Reason)
	if advice := adviceByReason[p.Reason]; advice != "" {
		sentence += ": " + advice
	}
	return sentence + "."
}
