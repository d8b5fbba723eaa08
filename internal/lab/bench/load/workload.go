package load

import (
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// Workload is a request, the number of clients that send it, and what its answers must be.
type Workload struct {
	Name string // unique in a run; also a file name and part of a URL path
	testbed.Request
	Concurrency int
	Body        BodyKind
	MinItems    int // a response with fewer items is invalid
}
