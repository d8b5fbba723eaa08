package load

import (
	"github.com/millrace/millrace/internal/bench/testbed"
)

// Workload is one kind of request and how many clients send it.
type Workload struct {
	Name string // unique in a run, fit for a file name and a URL path
	testbed.Request
	Concurrency int
	Body        BodyKind
	MinItems    int // fewer items make the response invalid
}
