package report

import "time"

// MemoryReport is /debug/millrace/memory, in bytes.
type MemoryReport struct {
	Time time.Time `json:"time"`
	// Resident is the process's, Limit what it may have (its cgroup's or the
	// machine's), Heap what Go's heap has in use.
	Resident   int64 `json:"resident"`
	Limit      int64 `json:"limit"`
	Heap       int64 `json:"heap"`
	Goroutines int   `json:"goroutines"`
	// Wire is the wire cache's, WireLimit its budget.
	Wire      int64 `json:"wire"`
	WireLimit int64 `json:"wireLimit"`
	// Resources are those with objects, the largest first.
	Resources []ResourceMemory `json:"resources"`
}

// ResourceMemory is what one resource takes.
type ResourceMemory struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	// Values are packed objects, Log what events hold beside them.
	Values int64 `json:"values"`
	Log    int64 `json:"log"`
	// Forms are wire bytes by form, as in "v1 json".
	Forms map[string]int64 `json:"forms,omitempty"`
	// Indexes are the terms that an index serves, as in "label app".
	Indexes []string `json:"indexes,omitempty"`
}
