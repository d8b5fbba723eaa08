package serverreport

import "time"

// CRDsReport is /debug/millrace/crds.
type CRDsReport struct {
	Time time.Time `json:"time"`
	// Definitions is the number of definitions. Served counts those that have objects or
	// were requested, Compiled those with compiled schemas.
	Definitions int `json:"definitions"`
	Served      int `json:"served"`
	Compiled    int `json:"compiled"`
	// References is the number of requests other than watches that use a definition now.
	// Retired counts the former states of changed definitions that have not ended yet: watches
	// go on for a second, and requests until they are answered.
	References int64 `json:"references"`
	Retired    int   `json:"retired"`
	// CompiledBytes is the size of the compiled schemas, CompiledLimit its bound.
	CompiledBytes int64 `json:"compiledBytes"`
	CompiledLimit int64 `json:"compiledLimit"`
	// Top has the most expensive definitions, 100 at most.
	Top []CRDCost `json:"top"`
}

// CRDCost is the memory that a definition takes.
type CRDCost struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	// DefinitionBytes is the size of the definition, ObjectBytes of its objects in the
	// cache, CompiledBytes of its compiled schemas.
	DefinitionBytes int64 `json:"definitionBytes"`
	ObjectBytes     int64 `json:"objectBytes"`
	CompiledBytes   int64 `json:"compiledBytes"`
	Webhook         bool  `json:"webhook"`
}
