package model

// Usage is the demand of a cluster in a setup.
type Usage struct {
	Servers ProcessUsage `json:"servers"`
	// Tiers are the replicas by depth.
	Tiers []ProcessUsage `json:"tiers,omitempty"`
	Etcd  EtcdUsage      `json:"etcd"`
	// BeginSeconds is the time until all programs that begin at once have all objects. It assumes
	// that the processors and networks are busy without a pause.
	BeginSeconds float64 `json:"beginSeconds"`

	readers *ProcessUsage // the tier at which nodes read
}

// ProcessUsage is the demand of the processes of one tier. CPU is in processors.
type ProcessUsage struct {
	Processes   int     `json:"processes"`
	CPU         float64 `json:"cpu"`         // of all processes together
	MemoryBytes float64 `json:"memoryBytes"` // of one process
	// BegunBytes is the memory of one process after all watches began at once.
	BegunBytes  float64 `json:"begunBytes"`
	SentBytes   float64 `json:"sentBytesPerSecond"` // by all processes together
	Watches     float64 `json:"watches"`
	Connections float64 `json:"connections"`
	// EventSeconds is the time in which the event with the most watchers is sent to all of them.
	EventSeconds float64 `json:"eventSeconds"`

	prices *prices
	// fixedCPU and fixedBytes are the parts of the CPU and the memory of one process that more
	// processes do not make smaller.
	fixedCPU, fixedBytes float64
}

// cpuPerProcess returns the CPU of one process.
func (u *ProcessUsage) cpuPerProcess() float64 { return u.CPU / float64(u.Processes) }

// EtcdUsage is the demand of all etcds of a cluster. CPU is in processors.
type EtcdUsage struct {
	WritesPerSecond float64 `json:"writesPerSecond"`
	CPU             float64 `json:"cpu"`
	SentBytes       float64 `json:"sentBytesPerSecond"` // to servers
	DatabaseBytes   float64 `json:"databaseBytes"`
	// MostWrites and MostBytes are the writes and the database of the etcd with the most.
	MostWrites float64 `json:"mostWritesPerSecond"`
	MostBytes  float64 `json:"mostDatabaseBytes"`
}
