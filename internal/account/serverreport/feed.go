package serverreport

import "time"

// FeedReport is /debug/millrace/feed: a row for each etcd cluster.
type FeedReport struct {
	Time  time.Time `json:"time"`
	Feeds []Feed    `json:"feeds"`
}

// Feed describes the watch of one etcd cluster.
type Feed struct {
	Prefix    string   `json:"prefix"`
	Endpoints []string `json:"endpoints"`
	// Revision is the newest revision up to which the cache is complete.
	Revision int64 `json:"revision"`
	// LateSeconds is for how long etcd has not answered. It is 0 while etcd answers in time.
	LateSeconds float64 `json:"late"`
	// Delivery is how long etcd's watch took to answer requests for its progress in the last
	// minute.
	Delivery Quantiles `json:"delivery"`
	// Events and Bytes have arrived on the watch since the start. Loads are not counted.
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
	// Restarts counts how often the watch broke, or could not begin.
	Restarts uint64 `json:"restarts"`
	// Loads counts the loads of all objects, from etcd or a checkpoint, the first one included.
	Loads uint64 `json:"loads"`
	// Error is why the watch broke, or could not begin. It is "" while the feed follows.
	Error string `json:"error,omitempty"`
}
