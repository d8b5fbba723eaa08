package serverreport

import "time"

// Stage is a part of the way of an event to a watch. The stages together are its span,
// except for StageEtcd, which is before the span.
type Stage string

const (
	// StageEtcd is from etcd to this server. An event does not tell when it was
	// committed. So the server measures how long etcd's watch takes to answer requests
	// for its progress.
	StageEtcd Stage = "etcd"
	// StageDecode is from the arrival of an event until it is in the cache.
	StageDecode Stage = "decode"
	// StageDispatch is from then on until the writer of a watch takes the event, without waits
	// for the client or the connection.
	StageDispatch Stage = "dispatch"
	// StageEncode is encoding and compressing frames.
	StageEncode Stage = "encode"
	// StageClient is waiting for a client that does not read its stream, so that its
	// HTTP/2 flow-control window is closed.
	StageClient Stage = "client"
	// StageConnection is waiting for a connection that takes no more bytes. The network
	// is full, or the other side has stopped reading.
	StageConnection Stage = "connection"
)

// Cause is why events are late: the name of a Stage, or one of the constants.
type Cause string

const (
	// CauseCPU: this process was ready to run and got no processor.
	CauseCPU Cause = "cpu"
	// CauseSize: late events are large.
	CauseSize Cause = "size"
	// CauseProbe: the event of the probe's write does not come.
	CauseProbe Cause = "probe"
	// CauseUnreadable: stored objects cannot be read. It makes no event late.
	CauseUnreadable Cause = "unreadable"
	// CausePanic: code of Kubernetes has panicked. It makes no event late.
	CausePanic Cause = "panic"

	// The causes below are of a ReplicaReport, about GETs and LISTs.

	// CauseNotFollowed: a resource that --follow names is refused.
	CauseNotFollowed Cause = "not followed"
	// CauseFailedReads: reads are answered with 403, or with 500 and above.
	CauseFailedReads Cause = "reads fail"
	// CausePassedOnReads: nearly all reads are passed on.
	CausePassedOnReads Cause = "reads are passed on"
)

// Quantiles are of times in seconds.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// StageTime is the time of one stage.
type StageTime struct {
	Stage Stage `json:"stage"`
	Quantiles
	// Share is the stage's share, 0 to 1, of the time of the slowest 1 % of the spans. It is 0
	// for StageEtcd.
	Share float64 `json:"share"`
}

// Burn is the burn rate of an objective: the share of late events, in units of the 1 %
// that may be late. 1 uses up the error budget exactly.
type Burn struct {
	FiveMinutes float64 `json:"fiveMinutes"`
	Hour        float64 `json:"hour"`
	SixHours    float64 `json:"sixHours"`
}

// SLOReport is /debug/millrace/slo. Quantiles are of the last minute.
type SLOReport struct {
	Time time.Time `json:"time"`
	// Met reports whether each objective was met in the last minute, and the feeds are and
	// were in time. It is also false while a watch waits for this server longer than its
	// objective, or the event of the probe's write does not come.
	Met bool `json:"met"`
	// Causes are what is wrong now, critical ones first. They are empty if all is well.
	Causes []Finding `json:"causes"`
	// All has the sums of all resources. Late events are late by their own resource's objective.
	All ResourceSLO `json:"all"`
	// Resources are the resources with spans in the last minute. The one whose p99 is the
	// largest multiple of its objective is first.
	Resources []ResourceSLO `json:"resources"`
	// Clients are the clients with spans in the last minute, the largest p99 first, 50 at most.
	Clients []ClientSLO `json:"clients"`
	// Subscriptions are the subscriptions with spans in the last minute, the largest p99
	// first, 50 at most.
	Subscriptions []SubscriptionSLO `json:"subscriptions"`
	// Probe is nil without --watch-probe.
	Probe *Probe `json:"probe,omitempty"`
	// Process shows whether this process runs when it should.
	Process Process `json:"process"`
}

// Finding is one thing that is wrong, for people.
type Finding struct {
	Cause Cause `json:"cause"`
	// Severity is "warning" or "critical".
	Severity string `json:"severity"`
	// Resource and Client are what the finding concerns. "" stands for all of them.
	Resource string `json:"resource,omitempty"`
	Client   string `json:"client,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Advice says what to do.
	Advice string `json:"advice,omitempty"`
}

// ResourceSLO describes the events of one resource, named as in "pods" or
// "deployments.apps".
type ResourceSLO struct {
	Resource string `json:"resource"`
	// ObjectiveSeconds is the time that 99 of 100 spans may take.
	ObjectiveSeconds float64   `json:"objective"`
	Met              bool      `json:"met"`
	Spans            Quantiles `json:"spans"`
	// Late is how many spans of the last minute were longer than the objective.
	Late   uint64      `json:"late"`
	Burn   Burn        `json:"burn"`
	Stages []StageTime `json:"stages"`
	// Cause is why the slowest 1 % of the spans took long. It is "" without spans.
	Cause Cause `json:"cause,omitempty"`
	// Events and Bytes were delivered since the start.
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
}

// ClientSLO describes the events of one client. Many clients may share one account.
type ClientSLO struct {
	Client
	Spans Quantiles `json:"spans"`
	// Late is how many spans of the last minute were longer than the objective of their
	// resource.
	Late    uint64 `json:"late"`
	Watches int    `json:"watches"`
	// Cause is why late events were late. It is "" if none was.
	Cause Cause `json:"cause,omitempty"`
	// Events and Bytes were delivered since the client's account was made.
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
}

// SubscriptionSLO describes the events of the watches of a resource with the same
// selection.
type SubscriptionSLO struct {
	Resource string `json:"resource"`
	// Selection is as in "namespace=a, labels: app=b, fields: spec.nodeName=n".
	Selection string    `json:"selection"`
	Watches   int       `json:"watches"`
	Spans     Quantiles `json:"spans"`
	// Events were delivered since the subscription's account was made.
	Events uint64 `json:"events"`
}

// Probe describes an object that this server writes and watches over its own listener.
type Probe struct {
	// Whole is from the beginning of the write until its event came back, in the last minute.
	Whole Quantiles `json:"whole"`
	// Commit is from the answer to the write until the event, in the last minute. It is 0 if the
	// event came first.
	Commit Quantiles `json:"commit"`
	// PendingSeconds is the time since the answer to the first write after which not all events
	// have come. It is 0 if no event is missing.
	PendingSeconds float64 `json:"pending"`
	Error          string  `json:"error,omitempty"`
}

// Process describes the last minute of the server's process. Times are in seconds.
type Process struct {
	// Delay is how late timers fired.
	Delay Quantiles `json:"delay"`
	// Scheduling is how long runnable goroutines waited to run. It has the resolution of
	// the Go runtime's buckets.
	Scheduling Quantiles `json:"scheduling"`
	// CPU is how many processors this process used on average.
	CPU float64 `json:"cpu"`
	// Processors is how many processors this process may use.
	Processors int `json:"processors"`
}
