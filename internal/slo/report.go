package slo

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

// Client is who asks: a user, and the name of the program without its version.
type Client struct {
	User      string `json:"user"`
	UserAgent string `json:"userAgent"`
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

// WatchersReport is /debug/millrace/watchers.
type WatchersReport struct {
	Time time.Time `json:"time"`
	// Watches is how many there are, Subscriptions what they share, Clients who
	// has them.
	Watches       int `json:"watches"`
	Subscriptions int `json:"subscriptions"`
	Clients       int `json:"clients"`
	// Waiting is how many have something that they were not sent yet.
	Waiting int `json:"waiting"`
	// Events and Bytes were delivered since the start, Expired is how many watches
	// were told to list again.
	Events  uint64 `json:"events"`
	Bytes   uint64 `json:"bytes"`
	Expired uint64 `json:"expired"`
	// ByResource has all, those with most watches first.
	ByResource []ResourceWatchers `json:"byResource"`
	// Behind are the watches furthest behind, 100 at most.
	Behind []Watcher `json:"behind"`
}

// ResourceWatchers are those of one resource.
type ResourceWatchers struct {
	Resource      string `json:"resource"`
	Watches       int    `json:"watches"`
	Subscriptions int    `json:"subscriptions"`
	// LogEvents, LogBytes and LogSeconds are what the log holds to resume from.
	LogEvents  int     `json:"logEvents"`
	LogBytes   int64   `json:"logBytes"`
	LogSeconds float64 `json:"logSeconds"`
}

// Watcher is one watch.
type Watcher struct {
	ID       uint64 `json:"id"`
	Resource string `json:"resource"`
	Client
	// Address is the client's, Protocol "HTTP/2.0" or "HTTP/1.1".
	Address   string `json:"address"`
	Protocol  string `json:"protocol"`
	Selection string `json:"selection"`
	// Encoding is as in "json", "protobuf gzip".
	Encoding string `json:"encoding"`
	// Age is since the watch began, in seconds.
	Age float64 `json:"age"`
	// State is "initial", "following", "client" or "connection": the latter two say
	// which stage it waits for.
	State string `json:"state"`
	// BehindEvents, BehindBytes and BehindSeconds are how far: events that it was
	// not sent, about their bytes, and the age of the oldest of them.
	BehindEvents  int64   `json:"behindEvents"`
	BehindBytes   int64   `json:"behindBytes"`
	BehindSeconds float64 `json:"behindSeconds"`
	Events        uint64  `json:"events"`
	Bytes         uint64  `json:"bytes"`
}

// ListsReport is /debug/millrace/lists.
type ListsReport struct {
	Time time.Time `json:"time"`
	// Total is of all GETs and LISTs since the start.
	Total ListCost `json:"total"`
	// Shapes are the most expensive by CPU of the last ten minutes, 50 at most.
	Shapes []ListShape `json:"shapes"`
	// Clients are the most expensive of the last ten minutes, 50 at most.
	Clients []ListClient `json:"clients"`
	// Storms are going on, or were in the last ten minutes.
	Storms []Storm `json:"storms"`
	// Pacing says whether relists are held back (--pace-relists).
	Pacing bool `json:"pacing"`
	// Paced is how many requests were answered with 429 for it since the start.
	Paced uint64 `json:"paced"`
}

// ListCost is what requests cost.
type ListCost struct {
	Requests uint64 `json:"requests"`
	Objects  uint64 `json:"objects"`
	// Scanned is how many objects were looked at to find those.
	Scanned uint64 `json:"scanned"`
	// ScannedBytes is what those take in the cache, Bytes what was returned, before
	// TLS.
	ScannedBytes uint64 `json:"scannedBytes"`
	Bytes        uint64 `json:"bytes"`
	// CPU and Seconds are sums, in seconds.
	CPU     float64 `json:"cpu"`
	Seconds float64 `json:"seconds"`
}

// Shape is what requests have in common.
type Shape struct {
	// Verb is "get" or "list".
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Version  string `json:"version"`
	// Scope is "cluster", "namespace" or "name".
	Scope string `json:"scope"`
	// Selectors are the keys without their values, as in "labels: app; fields: spec.nodeName".
	Selectors string `json:"selectors,omitempty"`
	// Revision is "unset", "0", "exact", "at least" or "continue".
	Revision string `json:"revision"`
	// Limit is the request's, 0 for none.
	Limit int64 `json:"limit,omitempty"`
	// Encoding is as in "json", "protobuf gzip", "table", "metadata".
	Encoding string `json:"encoding"`
	// Path is how objects were found: "key", "range", "index" or "scan"; "failed" is that
	// of a LIST that ended with an error before, and "passed on" one of Kubernetes'
	// handler.
	Path string `json:"path"`
	// Reason is why a request was passed on.
	Reason string `json:"reason,omitempty"`
}

// ListShape is a shape with its cost in the last ten minutes.
type ListShape struct {
	Shape
	ListCost
	// Clients are who asks most often so, three at most.
	Clients []Client `json:"clients"`
	// Advice are sentences; none if there is nothing to do better.
	Advice []string `json:"advice,omitempty"`
}

// ListClient is a client with its cost in the last ten minutes.
type ListClient struct {
	Client
	ListCost
	// Top is its most expensive shape.
	Top    Shape    `json:"top"`
	Advice []string `json:"advice,omitempty"`
}

// Storm is many clients of one kind that list the same in a short time.
type Storm struct {
	// UserAgent is the kind.
	UserAgent string    `json:"userAgent"`
	Resource  string    `json:"resource"`
	Began     time.Time `json:"began"`
	// Ended is zero while it goes on.
	Ended time.Time `json:"ended,omitzero"`
	// Clients is how many listed, Fleet how many of the kind are known.
	Clients  int    `json:"clients"`
	Fleet    int    `json:"fleet"`
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"bytes"`
	Advice   string `json:"advice"`
}

// MemoryReport is /debug/millrace/memory, in bytes.
type MemoryReport struct {
	Time time.Time `json:"time"`
	// Resident is the process's, Limit what it may have (its cgroup's or the
	// machine's), Heap what Go's heap has in use.
	Resident   int64 `json:"resident"`
	Limit      int64 `json:"limit"`
	Heap       int64 `json:"heap"`
	Goroutines int   `json:"goroutines"`
	// Wire is the wire cache's, WireLimit its budget.
	Wire      int64 `json:"wire"`
	WireLimit int64 `json:"wireLimit"`
	// Resources are those with objects, the largest first.
	Resources []ResourceMemory `json:"resources"`
}

// ResourceMemory is what one resource takes.
type ResourceMemory struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	// Values are packed objects, Log what events hold beside them.
	Values int64 `json:"values"`
	Log    int64 `json:"log"`
	// Forms are wire bytes by form, as in "v1 json".
	Forms map[string]int64 `json:"forms,omitempty"`
	// Indexes are the terms that an index serves, as in "label app".
	Indexes []string `json:"indexes,omitempty"`
}

// CRDsReport is /debug/millrace/crds.
type CRDsReport struct {
	Time time.Time `json:"time"`
	// Definitions is how many there are, Served how many of them have objects or
	// were asked for, Compiled how many have compiled schemas.
	Definitions int `json:"definitions"`
	Served      int `json:"served"`
	Compiled    int `json:"compiled"`
	// Compiled schemas take so many bytes of CompiledLimit.
	CompiledBytes int64 `json:"compiledBytes"`
	CompiledLimit int64 `json:"compiledLimit"`
	// Top are the most expensive, 100 at most.
	Top []CRDCost `json:"top"`
}

// CRDCost is what a definition costs.
type CRDCost struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	// Bytes are its definition's, its objects' in the cache, and its compiled
	// schemas'.
	DefinitionBytes int64 `json:"definitionBytes"`
	ObjectBytes     int64 `json:"objectBytes"`
	CompiledBytes   int64 `json:"compiledBytes"`
	Webhook         bool  `json:"webhook"`
}

// FeedReport is /debug/millrace/feed: a row for each etcd cluster.
type FeedReport struct {
	Time  time.Time `json:"time"`
	Feeds []Feed    `json:"feeds"`
}

// Feed is the watch of one etcd.
type Feed struct {
	Prefix    string   `json:"prefix"`
	Endpoints []string `json:"endpoints"`
	// Revision is what the cache has seen.
	Revision int64 `json:"revision"`
	// Late is how long etcd has not answered, in seconds; 0 when it is in time.
	Late float64 `json:"late"`
	// Delivery is how long etcd's watch took to answer in the last minute.
	Delivery Quantiles `json:"delivery"`
	Events   uint64    `json:"events"`
	Bytes    uint64    `json:"bytes"`
	// Restarts is how often the watch broke, Loads how often all was read anew.
	Restarts uint64 `json:"restarts"`
	Loads    uint64 `json:"loads"`
	Error    string `json:"error,omitempty"`
}
