package report

import "time"

// Stage is a part of the way of an event. Together they are its span, but for
// StageEtcd, which comes before the span begins.
type Stage string

const (
	// StageEtcd is from etcd to this server. It is measured by asking etcd's watch
	// for its progress, since an event does not tell when it was committed.
	StageEtcd Stage = "etcd"
	// StageDecode is from an event's arrival until it is in the cache.
	StageDecode Stage = "decode"
	// StageDispatch is from there until the writer of a watch takes it.
	StageDispatch Stage = "dispatch"
	// StageEncode is the encoding and compressing of its frames.
	StageEncode Stage = "encode"
	// StageClient is waiting for a client that does not read its stream: its
	// HTTP/2 window is used up.
	StageClient Stage = "client"
	// StageConnection is waiting for a connection that takes no more bytes: the
	// network is full, or the other side has stopped reading.
	StageConnection Stage = "connection"
)

// Cause is what kept events from being in time: a Stage, CauseCPU, CauseSize or
// CauseProbe.
type Cause string

const (
	// CauseCPU says that this process was ready to run and did not.
	CauseCPU Cause = "cpu"
	// CauseSize says that the events that were late are large.
	CauseSize Cause = "size"
	// CauseProbe says that what the probe wrote does not come back.
	CauseProbe Cause = "probe"
)

// Quantiles are of times in seconds.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// StageTime is what a stage took of the spans.
type StageTime struct {
	Stage Stage `json:"stage"`
	Quantiles
	// Share is the stage's part, 0 to 1, of the time of the slowest hundredth of
	// the spans.
	Share float64 `json:"share"`
}

// Burn is how fast the error budget of an objective is used up: 1 is as fast as it
// may. The budget is the hundredth of events that may be late.
type Burn struct {
	FiveMinutes float64 `json:"fiveMinutes"`
	Hour        float64 `json:"hour"`
	SixHours    float64 `json:"sixHours"`
}

// SLOReport is /debug/millrace/slo. Quantiles are of the last minute.
type SLOReport struct {
	Time time.Time `json:"time"`
	// Met says that each objective was met in the last minute, and that the feed is
	// in time.
	Met bool `json:"met"`
	// Causes are what is wrong now, the worst first; none if all is well.
	Causes []Finding `json:"causes"`
	// All is of all resources together.
	All ResourceSLO `json:"all"`
	// Resources had events in the last minute, those furthest beyond their
	// objective first.
	Resources []ResourceSLO `json:"resources"`
	// Clients had events in the last minute, the slowest first, 50 at most.
	Clients []ClientSLO `json:"clients"`
	// Subscriptions had events in the last minute, the slowest first, 50 at most.
	Subscriptions []SubscriptionSLO `json:"subscriptions"`
	// Probe is nil without --watch-probe.
	Probe *Probe `json:"probe,omitempty"`
	// Process tells whether this process runs when it should.
	Process Process `json:"process"`
}

// Finding names a cause, for people.
type Finding struct {
	Cause Cause `json:"cause"`
	// Severity is "warning" or "critical".
	Severity string `json:"severity"`
	// Resource and Client are whom it concerns, "" for all.
	Resource string `json:"resource,omitempty"`
	Client   string `json:"client,omitempty"`
	// Message is a sentence that says what is seen, Advice one that says what to do.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
}

// ResourceSLO is of the events of one resource, named as in "pods" or
// "deployments.apps".
type ResourceSLO struct {
	Resource string `json:"resource"`
	// Objective is in seconds: so long 99 of 100 spans may be.
	Objective float64   `json:"objective"`
	Met       bool      `json:"met"`
	Spans     Quantiles `json:"spans"`
	// Late is how many spans of the last minute were longer.
	Late   uint64      `json:"late"`
	Burn   Burn        `json:"burn"`
	Stages []StageTime `json:"stages"`
	// Cause is what the slowest hundredth of spans waited for most.
	Cause Cause `json:"cause,omitempty"`
	// Events were delivered, and Bytes with them, since the start.
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
}

// ClientSLO is of the events of one client.
type ClientSLO struct {
	Client
	Spans   Quantiles `json:"spans"`
	Late    uint64    `json:"late"`
	Watches int       `json:"watches"`
	Cause   Cause     `json:"cause,omitempty"`
	Events  uint64    `json:"events"`
	Bytes   uint64    `json:"bytes"`
}

// SubscriptionSLO is of the events of the watches that select the same.
type SubscriptionSLO struct {
	Resource string `json:"resource"`
	// Selection is as in "namespace=a, labels: app=b, fields: spec.nodeName=n".
	Selection string    `json:"selection"`
	Watches   int       `json:"watches"`
	Spans     Quantiles `json:"spans"`
	Events    uint64    `json:"events"`
}

// Probe is an object that this server writes and watches through its own front door.
type Probe struct {
	// Whole is from the start of the write to its event at the client, Commit from the
	// answer to the write: zero where the event was first. Both are of the last minute.
	Whole  Quantiles `json:"whole"`
	Commit Quantiles `json:"commit"`
	// Pending is how long the newest write has waited for its event, in seconds.
	Pending float64 `json:"pending"`
	Error   string  `json:"error,omitempty"`
}

// Process is of the last minute. Times are in seconds.
type Process struct {
	// Delay is how late timers fired.
	Delay Quantiles `json:"delay"`
	// Scheduling is how long goroutines that could run waited for it, by the Go
	// runtime's own buckets.
	Scheduling Quantiles `json:"scheduling"`
	// CPU is of how many processors this process used, Processors how many it may.
	CPU        float64 `json:"cpu"`
	Processors int     `json:"processors"`
}
