package follow

// Request says how a resource is to be followed.
type Request struct {
	Version
	// Named says that the operator has named the resource. It is not given up for lack of
	// readers or memory. If it is given up for another reason, it is followed again.
	Named bool
	// Needed says that the replica itself needs the resource. It implies Named, and a sweep
	// never gives the resource up.
	Needed bool
	// Custom says that the resource is of a definition. Spec is the hash of the definition's
	// spec, by which the upstream sends the objects.
	Custom bool
	Spec   uint64
	// Optional says that the replica is ready though the resource could not be loaded.
	Optional bool
	// UpstreamOnly says that the objects come from the upstream alone, neither from disk nor from
	// another replica.
	UpstreamOnly bool
}
