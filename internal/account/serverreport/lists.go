package serverreport

import "time"

// ListsReport is /debug/millrace/lists.
type ListsReport struct {
	Time time.Time `json:"time"`
	// Total is the cost of all GETs and LISTs since the start.
	Total ListCost `json:"total"`
	// Shapes are the shapes with most CPU in the last ten minutes, 50 at most.
	Shapes []ListShape `json:"shapes"`
	// Clients are the clients with most CPU in the last ten minutes, 50 at most.
	Clients []ListClient `json:"clients"`
	// Storms go on, or are the last 50 that ended in the last ten minutes. The newest is first.
	Storms []Storm `json:"storms"`
	// Pacing reports whether relists are paced in storms (--pace-relists).
	Pacing bool `json:"pacing"`
	// Paced is how many requests pacing answered with 429 since the start.
	Paced uint64 `json:"paced"`
	// Transcoding says how objects were encoded, for watches too. Nil means that all were
	// encoded by Kubernetes (--transcode=false).
	Transcoding *TranscodingCounts `json:"transcoding,omitempty"`
}

// TranscodingCounts say what became, since the start, of the objects of kinds that a transcoder
// can write.
type TranscodingCounts struct {
	// Transcoded were written from their stored bytes.
	Transcoded int64 `json:"transcoded"`
	// Compared were encoded by Kubernetes too, and were equal.
	Compared int64 `json:"compared"`
	// Different were encoded by Kubernetes too, and were not equal.
	Different int64 `json:"different"`
	// Refuted have the same fields as an object that counts as Different. Kubernetes encoded
	// them.
	Refuted int64 `json:"refuted"`
	// Declined are not described by the tables, or stored in another version. Kubernetes encoded
	// them.
	Declined int64 `json:"declined"`
	// Normalized were refuted or declined until their normal form was found. Since then
	// they are written from their normal form.
	Normalized int64 `json:"normalized"`
	// Proven is how many combinations of fields (fingerprints) are proven now.
	Proven int64 `json:"proven"`
	// Last is the last difference. It is nil if there was none.
	Last *TranscodingDifference `json:"last,omitempty"`
}

// TranscodingDifference is where an object's transcoded bytes differed from Kubernetes'.
type TranscodingDifference struct {
	Time     time.Time `json:"time"`
	Form     string    `json:"form"`
	Key      string    `json:"key"`
	Revision int64     `json:"revision"`
	Place    string    `json:"place"`
	// Stopped says that the fingerprint was proven before. The form is then no longer
	// transcoded.
	Stopped bool `json:"stopped"`
}

// ListCost is the cost of requests.
type ListCost struct {
	Requests uint64 `json:"requests"`
	// PassedOn is how many of the requests were passed on, without Shared.
	PassedOn uint64 `json:"passedOn,omitempty"`
	// Shared is how many were given the answer to another request that was passed on.
	Shared uint64 `json:"shared,omitempty"`
	// Failed is how many were answered with 403, or with 500 and above.
	Failed uint64 `json:"failed,omitempty"`
	// Objects is how many objects the answers have. PassedOn and Shared add nothing.
	Objects uint64 `json:"objects"`
	// Scanned is how many objects were examined to find Objects.
	Scanned uint64 `json:"scanned"`
	// ScannedBytes estimates the size of the examined objects, unpacked.
	ScannedBytes uint64 `json:"scannedBytes"`
	// Bytes is the size of the answers' bodies, before TLS.
	Bytes uint64 `json:"bytes"`
	// CPU estimates the CPU time, in seconds.
	CPU float64 `json:"cpu"`
	// Seconds is the sum of the requests' durations.
	Seconds float64 `json:"seconds"`
}

// Add adds d to the cost.
func (c *ListCost) Add(d *ListCost) {
	c.Requests += d.Requests
	c.PassedOn += d.PassedOn
	c.Shared += d.Shared
	c.Failed += d.Failed
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
	// Clients are the clients whose requests took most CPU, three at most.
	Clients []Client `json:"clients"`
	// Advice has a sentence for each thing that could be better. It is empty if there is none.
	Advice []string `json:"advice,omitempty"`
}

// ListClient is a client with its cost in the last ten minutes.
type ListClient struct {
	Client
	ListCost
	// Top is the shape that took the most CPU time.
	Top    Shape    `json:"top"`
	Advice []string `json:"advice,omitempty"`
}

// Storm is many clients of one program that list all of a resource in a short time.
type Storm struct {
	// UserAgent is the name of the program.
	UserAgent string    `json:"userAgent"`
	Resource  string    `json:"resource"`
	Began     time.Time `json:"began"`
	// Ended is zero while the storm goes on.
	Ended time.Time `json:"ended,omitzero"`
	// Clients estimates how many clients listed.
	Clients int `json:"clients"`
	// Fleet estimates how many clients the program has.
	Fleet    int    `json:"fleet"`
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"bytes"`
	Advice   string `json:"advice"`
}
