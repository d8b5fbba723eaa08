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
	// StageDispatch is waiting for the connection's writer, until it takes the event. An event
	// that needs several writes also waits until the last of these begins. Waits for the client
	// or the connection do not count.
	StageDispatch Stage = "dispatch"
	// StageEncode is filling the buffer of the first write: encoding and compressing frames.
	StageEncode Stage = "encode"
	// StageClient is waiting for a client that does not read its stream, so that its
	// HTTP/2 flow-control window is closed.
	StageClient Stage = "client"
	// StageConnection is writing to the connection: earlier writes that the event waits for, and
	// its own. It is long if the network is full, or if the other side has stopped reading.
	StageConnection Stage = "connection"
)

// Cause is why events are late, or what a Finding is about: the name of a Stage, or one of the
// constants.
type Cause string

const (
	// CauseCPU: this process was ready to run and got no processor.
	CauseCPU Cause = "cpu"
	// CauseSize: late events are large.
	CauseSize Cause = "size"
	// CauseProbe: the probe does not work, or the event of its write does not come.
	CauseProbe Cause = "probe"
	// CauseUnreadable: stored objects cannot be read. It makes no event late.
	CauseUnreadable Cause = "unreadable"
	// CausePanic: code of Kubernetes has panicked. It makes no event late.
	CausePanic Cause = "panic"

	// The causes below are of a ReplicaReport, about GETs and LISTs.

	// CauseNotFollowed: a resource that --follow names, or that the replica itself needs, is
	// refused.
	CauseNotFollowed Cause = "not followed"
	// CauseFailedReads: reads are answered with 403, or with 500 and above.
	CauseFailedReads Cause = "reads fail"
	// CausePassedOnReads: nearly all reads are passed on.
	CausePassedOnReads Cause = "reads are passed on"
)

// Quantiles are of times in seconds. They are 0 without times.
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
	// were in time. It is also false while Causes has a watch that waits for this server longer
	// than its objective. So it is if the probe works, but its event does not come within 10 s.
	Met bool `json:"met"`
	// Causes are what is wrong now, critical ones first. They are empty if all is well.
	Causes []Finding `json:"causes"`
	// All has the sums of all resources, with or without a row in Resources. Late events are late
	// by their own resource's objective.
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

// Finding is one thing that is wrong.
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
	ObjectiveSeconds float64 `json:"objective"`
	// Met says that at most 1 % of the spans of the last minute were late.
	Met   bool      `json:"met"`
	Spans Quantiles `json:"spans"`
	// Late is how many spans of the last minute were longer than the objective.
	Late   uint64      `json:"late"`
	Burn   Burn        `json:"burn"`
	Stages []StageTime `json:"stages"`
	// Cause is why the slowest 1 % of the spans took long. It is "" without spans.
	Cause Cause `json:"cause,omitempty"`
	// Events and Bytes were delivered since the resource's account was made. The account of a
	// deleted resource is dropped.
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
	// Events and Bytes were delivered since the client's account was made. The account "other"
	// also has the sums of clients whose accounts were dropped.
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

// Probe describes an object that this server writes and watches over its own listener. A write
// is pending from its answer until its event. If more is written meanwhile, all these writes are
// pending until the event of the newest.
type Probe struct {
	// Whole is from the beginning of a write until its event, in the last minute. Writes that
	// are pending together count once: from the beginning of the first until the event of the
	// newest.
	Whole Quantiles `json:"whole"`
	// Commit is as Whole, but from the answer to the write. An event that came before the answer
	// counts as 0.
	Commit Quantiles `json:"commit"`
	// PendingSeconds is the time since the answer to the first pending write. It is 0 if none is
	// pending.
	PendingSeconds float64 `json:"pending"`
	// Error is why the probe cannot write or watch. It is "" while the probe works.
	Error string `json:"error,omitempty"`
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
