package serverreport

import "time"

// MemoryReport is /debug/millrace/memory, in bytes.
type MemoryReport struct {
	Time time.Time `json:"time"`
	// Resident is the process's resident memory.
	Resident int64 `json:"resident"`
	// Limit is the machine's memory, or the limit of the process's cgroup if that is less.
	Limit int64 `json:"limit"`
	// Heap is the size of the in-use spans of Go's heap, as runtime.MemStats.HeapInuse.
	Heap       int64 `json:"heap"`
	Goroutines int   `json:"goroutines"`
	// Wire is the size of the wire cache.
	Wire int64 `json:"wire"`
	// WireLimit is the budget of the wire cache.
	WireLimit int64 `json:"wireLimit"`
	// Resources are the resources with objects or a log, the largest first.
	Resources []ResourceMemory `json:"resources"`
}

// ResourceMemory is the memory of one resource, in bytes.
type ResourceMemory struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	// Values is the size of the stored objects in memory, packed or not.
	Values int64 `json:"values"`
	// Log is the size of the events in the log, without objects that Values has.
	Log int64 `json:"log"`
	// Forms is the size of the resource's part of the wire cache by form, as in "v1 json".
	Forms map[string]int64 `json:"forms,omitempty"`
	// Indexes are the labels and fields that have an index, as in "label app".
	Indexes []string `json:"indexes,omitempty"`
}
