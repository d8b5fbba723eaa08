package serverreport

import "time"

// MemoryReport is /debug/millrace/memory. Sizes are in bytes.
type MemoryReport struct {
	Time time.Time `json:"time"`
	// Resident is the process's resident memory.
	Resident int64 `json:"resident"`
	// Limit is the machine's memory, or the limit of the container's cgroup (version 2) if that
	// is less. It is 2 GiB where the system reports neither.
	Limit int64 `json:"limit"`
	// Heap is the size of Go's heap with the free room between objects, as
	// runtime.MemStats.HeapInuse.
	Heap       int64 `json:"heap"`
	Goroutines int   `json:"goroutines"`
	// Wire is the size of the wire cache: encoded bytes that are kept for the next reader.
	Wire int64 `json:"wire"`
	// WireLimit bounds Wire.
	WireLimit int64 `json:"wireLimit"`
	// Resources are the resources with objects or a log, the largest first.
	Resources []ResourceMemory `json:"resources"`
}

// ResourceMemory is the memory of one resource. Sizes are in bytes.
type ResourceMemory struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	// Values is the size of the stored objects as the cache keeps them.
	Values int64 `json:"values"`
	// Log is the size of the events in the log, without objects that Values has.
	Log int64 `json:"log"`
	// Forms is the size of the resource's part of the wire cache by form, as in "v1 json".
	Forms map[string]int64 `json:"forms,omitempty"`
	// Indexes are the labels and fields that have an index, as in "label app".
	Indexes []string `json:"indexes,omitempty"`
}
