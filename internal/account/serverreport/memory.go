package serverreport

import "time"

// MemoryReport is /debug/millrace/memory, in bytes.
type MemoryReport struct {
	Time time.Time `json:"time"`
	// Resident is the process's resident memory.
	Resident int64 `json:"resident"`
	// Limit is the memory of its cgroup or of the machine.
	Limit int64 `json:"limit"`
	// Heap is the part of Go's heap that is in use.
	Heap       int64 `json:"heap"`
	Goroutines int   `json:"goroutines"`
	// Wire is the size of the wire cache.
	Wire int64 `json:"wire"`
	// WireLimit is the budget of the wire cache.
	WireLimit int64 `json:"wireLimit"`
	// Resources are the resources with objects, the largest first.
	Resources []ResourceMemory `json:"resources"`
}

// ResourceMemory is the memory of one resource, in bytes.
type ResourceMemory struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	// Values is the size of packed objects.
	Values int64 `json:"values"`
	// Log is what events hold in addition.
	Log int64 `json:"log"`
	// Forms are wire bytes by form, as in "v1 json".
	Forms map[string]int64 `json:"forms,omitempty"`
	// Indexes are the terms that an index serves, as in "label app".
	Indexes []string `json:"indexes,omitempty"`
}
