package model

// Usage is the demand of a cluster in a setup.
type Usage struct {
	Servers ProcessUsage `json:"servers"`
	// Tiers are the replicas by depth.
	Tiers []ProcessUsage `json:"tiers,omitempty"`
	Etcd  EtcdUsage      `json:"etcd"`
	// StormSeconds is the time until all programs of a storm have all objects. It assumes that the
	// processors and networks are busy without a pause.
	StormSeconds float64 `json:"stormSeconds"`

	readers *ProcessUsage // the tier at which nodes read
}

// ProcessUsage is the demand of the processes of one tier. CPU is in processors.
type ProcessUsage struct {
	Processes   int     `json:"processes"`
	CPU         float64 `json:"cpu"`         // of all processes together
	MemoryBytes float64 `json:"memoryBytes"` // of one process
	// StormBytes is the memory of one process after a storm: the fraction Cluster.Storm of its watches
	// started at the same time.
	StormBytes  float64 `json:"stormBytes"`
	SentBytes   float64 `json:"sentBytesPerSecond"` // by all processes together
	Watches     float64 `json:"watches"`
	Connections float64 `json:"connections"`
	// EventSeconds is the time in which the costliest event is sent to all its watchers.
	EventSeconds float64 `json:"eventSeconds"`

	prices *prices
	// fixedCPU and fixedBytes are the parts of the CPU and the memory of one process that more
	// processes do not make smaller.
	fixedCPU, fixedBytes float64
}

// cpuPerProcess returns the CPU of one process, in processors.
func (u *ProcessUsage) cpuPerProcess() float64 { return u.CPU / float64(u.Processes) }

// sentPerProcess returns the bytes that one process sends per second.
func (u *ProcessUsage) sentPerProcess() float64 { return u.SentBytes / float64(u.Processes) }

// EtcdUsage is the demand of all etcds of a cluster. CPU is in processors.
type EtcdUsage struct {
	WritesPerSecond float64 `json:"writesPerSecond"`
	CPU             float64 `json:"cpu"`
	SentBytes       float64 `json:"sentBytesPerSecond"` // to servers
	DatabaseBytes   float64 `json:"databaseBytes"`
	// MaxWrites are the writes per second of the etcd with the most writes. MaxBytes is the size
	// of the largest database.
	MaxWrites float64 `json:"maxWritesPerSecond"`
	MaxBytes  float64 `json:"maxDatabaseBytes"`
}
