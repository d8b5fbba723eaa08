package serverreport

import "time"

// MemoryReport is /debug/millrace/memory, in bytes.
type MemoryReport struct {
	Time time.Time `json:"time"`
	// Resident is the process's resident memory. Limit is the memory of its cgroup or of
	// the machine. Heap is the part of Go's heap that is in use.
	Resident   int64 `json:"resident"`
	Limit      int64 `json:"limit"`
	Heap       int64 `json:"heap"`
	Goroutines int   `json:"goroutines"`
	// Wire is the size of the wire cache, WireLimit its budget.
	Wire      int64 `json:"wire"`
	WireLimit int64 `json:"wireLimit"`
	// Resources are those with objects, the largest first.
	Resources []ResourceMemory `json:"resources"`
}

// ResourceMemory is the memory of one resource, in bytes.
type ResourceMemory struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	// Values is of packed objects. Log is what events hold in addition.
	Values int64 `json:"values"`
	Log    int64 `json:"log"`
	// Forms are wire bytes by form, as in "v1 json".
	Forms map[string]int64 `json:"forms,omitempty"`
	// Indexes are the terms that an index serves, as in "label app".
	Indexes []string `json:"indexes,omitempty"`
}
