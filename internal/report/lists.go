package report

import "time"

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

// Add adds the cost of other requests.
func (c *ListCost) Add(d *ListCost) {
	c.Requests += d.Requests
	c.Objects += d.Objects
	c.Scanned += d.Scanned
	c.ScannedBytes += d.ScannedBytes
	c.Bytes += d.Bytes
	c.CPU += d.CPU
	c.Seconds += d.Seconds
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
