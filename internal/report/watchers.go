package report

import "time"

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
