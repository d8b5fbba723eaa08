package serverreport

import "time"

// ReplicaReport is /debug/millrace/replica: how a replica follows its upstream, and what it
// answers. Maps and Spared count since the start of the process.
type ReplicaReport struct {
	Time time.Time `json:"time"`
	// Upstream is the upstream's address.
	Upstream string `json:"upstream"`
	// UpstreamVersion is the upstream's version.
	UpstreamVersion string `json:"version"`
	// OwnVersion is the version of the Kubernetes that is built into the replica.
	OwnVersion string `json:"ownVersion"`
	// Skew says how built-in resources are answered if the minor versions of UpstreamVersion and
	// OwnVersion differ. It is empty if they are the same.
	Skew string `json:"skew,omitempty"`
	// Source is "etcd", or "api" if each resource is followed by a watch of the upstream.
	Source string `json:"source"`
	// Depth is the number of replicas that an event has passed when it is here, this one
	// included.
	Depth int `json:"depth"`
	// Causes are what is wrong with GETs and LISTs now. What is wrong with watch events is in the
	// SLOReport.
	Causes []Finding `json:"causes"`
	// Followed has a row for each resource with a feed, or for each etcd cluster. It also has
	// a row, with Refused, for each resource that was given up and is not tried again yet. Rows
	// with Error come first.
	Followed []FollowedResource `json:"followed"`
	// Reads has a row for each resource: how GETs and LISTs of the last ten minutes were answered.
	Reads []ResourceReads `json:"reads"`
	// Answered counts the reads that were answered here, by verb.
	Answered map[string]uint64 `json:"answered"`
	// PassedOn counts the requests that this replica did not answer by itself, by reason. It
	// includes requests that shared the answer to another request, or were then refused.
	PassedOn map[string]uint64 `json:"passedOn"`
	// Refused counts the requests that were refused here, by reason.
	Refused map[string]uint64 `json:"refused"`
	// UpstreamRequests counts the requests that were sent to the upstream for clients, by how their
	// user was named: token, front-proxy, impersonation, or anonymous.
	UpstreamRequests map[string]uint64 `json:"asked"`
	// Spared is the work that the upstream was spared.
	Spared SparedWork `json:"spared"`
}

// ResourceReads counts the GETs and LISTs of a resource. The upstream answered PassedOn of
// Requests. Shared were given the answer to a request that was passed on. The replica itself
// answered all others. Failed were answered with 403, or with 500 and above, by the upstream
// or by the replica.
type ResourceReads struct {
	Resource string `json:"resource"`
	Requests uint64 `json:"requests"`
	Shared   uint64 `json:"shared"`
	PassedOn uint64 `json:"passedOn"`
	Failed   uint64 `json:"failed,omitempty"`
}

// SparedWork is what the replica answered and would have been the upstream's work. The
// replica's own requests to the upstream are not subtracted.
type SparedWork struct {
	// Requests counts GETs and LISTs. Requests that were given the answer to another request
	// count too.
	Requests uint64 `json:"requests"`
	// RequestBytes is the size of the bodies of their answers.
	RequestBytes uint64 `json:"requestBytes"`
	// Events were delivered to watches, initial ones included, as EventBytes.
	Events     uint64 `json:"events"`
	EventBytes uint64 `json:"eventBytes"`
	// CPUSeconds is the least CPU time that a stock API server would have used for the requests
	// and events. It is an estimate out of benchmarks (docs/dashboard.md).
	CPUSeconds float64 `json:"cpu"`
}

// FollowedResource is a resource of the upstream, or an etcd cluster.
type FollowedResource struct {
	Name     string `json:"name"`
	Objects  int    `json:"objects"`
	Revision int64  `json:"revision"`
	// SinceHeardSeconds is how long ago the watch last sent an event or a bookmark. It is 0 for
	// etcd, and before the first of them.
	SinceHeardSeconds float64 `json:"heard"`
	// BrokenSeconds is for how long the feed has not followed. It is 0 while the feed follows,
	// and before it follows for the first time.
	BrokenSeconds float64 `json:"broken"`
	Error         string  `json:"error,omitempty"`
	// Named says that --follow names the resource, or the replica itself needs it.
	Named bool `json:"named,omitempty"`
	// Refused is why the resource is not followed: "refused" by the upstream, "silent" or
	// "memory". Error says it in words.
	Refused string `json:"refused,omitempty"`
}
