package bench

// workload is one kind of request and how many clients send it.
type workload struct {
	name string // unique in a run, fit for a file name and a URL path
	request
	concurrency int
	body        bodyKind
	minItems    int // fewer items make the response invalid
}
