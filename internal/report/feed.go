package report

import "time"

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
