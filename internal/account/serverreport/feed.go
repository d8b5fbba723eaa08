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
	// Delivery is how long etcd's watch took to answer in the last minute.
	Delivery Quantiles `json:"delivery"`
	Events   uint64    `json:"events"`
	Bytes    uint64    `json:"bytes"`
	// Restarts counts how often the watch broke.
	Restarts uint64 `json:"restarts"`
	// Loads counts how often all objects were read again.
	Loads uint64 `json:"loads"`
	Error string `json:"error,omitempty"`
}
