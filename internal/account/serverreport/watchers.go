package serverreport

import "time"

// WatchersReport is /debug/millrace/watchers. A watcher is a watch, here and in the names of the
// rows. PassedOn and PassedOnBy alone are about watches that are passed on.
type WatchersReport struct {
	Time time.Time `json:"time"`
	// Watches is the number of open watches.
	Watches int `json:"watches"`
	// Subscriptions and Clients are how many different subscriptions and clients the watches have.
	Subscriptions int `json:"subscriptions"`
	Clients       int `json:"clients"`
	// Waiting is how many watches have a backlog, or get initial events.
	Waiting int `json:"waiting"`
	// Events and Bytes were delivered since the start.
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
	// Expired counts the watches that ended since the start because the log no longer had their
	// position. Their clients have to list again.
	Expired uint64 `json:"expired"`
	// ByResource has the resources with watches, the resource with most watches first.
	ByResource []ResourceWatchers `json:"byResource"`
	// Behind are the watches that lag most, 100 at most.
	Behind []Watcher `json:"behind"`
	// PassedOn is how many watches are open that are passed on: another server, or Kubernetes'
	// handlers, send their events.
	PassedOn int `json:"passedOn"`
	// PassedOnBy counts these watches by client, resource and reason. It has the 100 largest rows.
	PassedOnBy []PassedOnWatches `json:"passedOnBy,omitempty"`
}

// PassedOnWatches are the open watches of one client for one resource that are passed on for
// one reason.
type PassedOnWatches struct {
	Client
	Resource string `json:"resource"`
	// Reason is a value of the label reason of millrace_read_passed_on_total.
	Reason  string `json:"reason"`
	Watches int    `json:"watches"`
}

// ResourceWatchers describes the watches of one resource.
type ResourceWatchers struct {
	Resource      string `json:"resource"`
	Watches       int    `json:"watches"`
	Subscriptions int    `json:"subscriptions"`
	// LogEvents and LogBytes are the size of the resource's log, from which watches resume.
	// LogSeconds is the age of its oldest event.
	LogEvents  int     `json:"logEvents"`
	LogBytes   int64   `json:"logBytes"`
	LogSeconds float64 `json:"logSeconds"`
}

// Watcher is one open watch.
type Watcher struct {
	ID       uint64 `json:"id"`
	Resource string `json:"resource"`
	Client
	// Address is the client's.
	Address string `json:"address"`
	// Protocol is "HTTP/2.0" or "HTTP/1.1".
	Protocol  string `json:"protocol"`
	Selection string `json:"selection"`
	// Encoding is as in "json", "protobuf gzip".
	Encoding string `json:"encoding"`
	// AgeSeconds is the time since the watch began.
	AgeSeconds float64 `json:"age"`
	// State is "initial" or "following", or the stage that the watch waits for: "client" or
	// "connection".
	State string `json:"state"`
	// BehindEvents is an upper bound of the events that were not sent yet.
	BehindEvents int64 `json:"behindEvents"`
	// BehindBytes estimates the bytes of these events, as stored.
	BehindBytes int64 `json:"behindBytes"`
	// BehindSeconds is the age of the oldest event that has not been sent yet.
	BehindSeconds float64 `json:"behindSeconds"`
	// Events and Bytes were delivered since the watch began.
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
}
