package report

import "time"

// CRDsReport is /debug/millrace/crds.
type CRDsReport struct {
	Time time.Time `json:"time"`
	// Definitions is how many there are, Served how many of them have objects or
	// were asked for, Compiled how many have compiled schemas.
	Definitions int `json:"definitions"`
	Served      int `json:"served"`
	Compiled    int `json:"compiled"`
	// Compiled schemas take so many bytes of CompiledLimit.
	CompiledBytes int64 `json:"compiledBytes"`
	CompiledLimit int64 `json:"compiledLimit"`
	// Top are the most expensive, 100 at most.
	Top []CRDCost `json:"top"`
}

// CRDCost is what a definition costs.
type CRDCost struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	// Bytes are its definition's, its objects' in the cache, and its compiled
	// schemas'.
	DefinitionBytes int64 `json:"definitionBytes"`
	ObjectBytes     int64 `json:"objectBytes"`
	CompiledBytes   int64 `json:"compiledBytes"`
	Webhook         bool  `json:"webhook"`
}
