package serverreport

import "time"

// CRDsReport is /debug/millrace/crds.
type CRDsReport struct {
	Time time.Time `json:"time"`
	// Definitions is the number of definitions.
	Definitions int `json:"definitions"`
	// Served counts the definitions that have objects, or were requested since the start.
	Served int `json:"served"`
	// Compiled counts the definitions with compiled schemas.
	Compiled int `json:"compiled"`
	// References is the number of requests other than watches that use a definition now.
	References int64 `json:"references"`
	// Retired counts the former states of definitions that changed or were deleted, which still
	// have watches or requests.
	Retired int `json:"retired"`
	// CompiledBytes estimates the size of the compiled schemas.
	CompiledBytes int64 `json:"compiledBytes"`
	// CompiledLimit bounds CompiledBytes.
	CompiledLimit int64 `json:"compiledLimit"`
	// Top has the definitions that take most memory, 100 at most.
	Top []CRDCost `json:"top"`
}

// CRDCost is the memory that a definition takes.
type CRDCost struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	// DefinitionBytes is the size of the definition.
	DefinitionBytes int64 `json:"definitionBytes"`
	// ObjectBytes is the size of its objects as the cache keeps them.
	ObjectBytes int64 `json:"objectBytes"`
	// CompiledBytes estimates the size of its compiled schemas.
	CompiledBytes int64 `json:"compiledBytes"`
	// Webhook says that a webhook converts its objects.
	Webhook bool `json:"webhook"`
}
