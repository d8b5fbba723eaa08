package model

import (
	"fmt"
	"path/filepath"

	"github.com/millrace/millrace/internal/tool/render"
)

// Files of the reports from which constants are derived.
const (
	listFile       = "list.json"
	listEtcdFile   = "list-without-cache.json"
	watchFile      = "watch-1.37.json"
	coldFile       = "cold.json"
	coldLargeFile  = "cold-100000.json"
	definitionFile = "crd.json"
	replicaFile    = "replica.json"
	treeFile       = "tree.json"
	serversFile    = "servers.json" // for Compare alone
)

// definitionReport is a report of bench crd.
type definitionReport struct {
	Data struct {
		CRDs float64 `json:"crds"`
	} `json:"data"`
	Servers []struct {
		Name            string `json:"name"`
		Idle, Installed struct {
			RSSBytes float64 `json:"rssBytes"`
		}
	} `json:"servers"`
}

// fleetReport is a report of bench replica or bench tree.
type fleetReport struct {
	Plan struct {
		Objects float64 `json:"objects"`
	} `json:"plan"`
	Machine struct {
		Cores float64 `json:"cores"`
	} `json:"machine"`
	Fanout  int        `json:"fanout"`
	Results []fleetRow `json:"results"`
}

// fleetRow is the result of one setup with a number of informers.
type fleetRow struct {
	Setup     string     `json:"setup"`
	Informers float64    `json:"informers"`
	Clients   float64    `json:"clients"`
	Opening   *fleetOpen `json:"opening"`
	Writes    float64    `json:"writes"`
	PerSecond float64    `json:"writesPerSecond"`
	Events    float64    `json:"events"`
	Millis    struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"millis"`
	fleetCosts
	Error string `json:"error"`
}

// fleetOpen is the cost of the time in which all informers started at the same time.
type fleetOpen struct {
	Seconds float64 `json:"seconds"`
	Writes  float64 `json:"writes"`
	fleetCosts
}

// fleetCosts has the costs of all processes of a setup.
type fleetCosts struct {
	Upstream processCost   `json:"upstream"`
	Tiers    []processCost `json:"tiers"`
	Etcd     processCost   `json:"etcd"`
	// ClientSeconds is the CPU of the informers and of the writer.
	ClientSeconds float64 `json:"clientCPUSeconds"`
}

// processCost is the cost of a process, or of all processes of a tier.
type processCost struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	SentBytes  float64 `json:"sentBytes"`
	RSSBytes   float64 `json:"rssBytes"`
}

// seconds returns the time for which writes came.
func (r *fleetRow) seconds() float64 { return r.Writes / r.PerSecond }

// servingCost returns the cost of the processes at which informers read.
func (c *fleetCosts) servingCost() *processCost {
	if len(c.Tiers) > 0 {
		return &c.Tiers[len(c.Tiers)-1]
	}
	return &c.Upstream
}

// replicasAtDepth returns the number of replicas that a row of a tree has at a depth.
func (r *fleetReport) replicasAtDepth(depth int) float64 {
	if r.Fanout == 0 {
		return 1
	}
	n := 1.0
	for range depth {
		n *= float64(r.Fanout)
	}
	return n
}

// baseline returns the row of a setup without informers, or nil.
func (r *fleetReport) baseline(setup string) *fleetRow { return r.find(setup, 0) }

// find returns the row of a setup with a number of informers, or nil. It ignores failed rows.
func (r *fleetReport) find(setup string, informers float64) *fleetRow {
	for i := range r.Results {
		if row := &r.Results[i]; row.Setup == setup && row.Informers == informers && row.Error == "" {
			return row
		}
	}
	return nil
}

// serversReport is a report of bench servers.
type serversReport struct {
	Results []struct {
		Path      string  `json:"path"`
		Servers   int     `json:"servers"`
		Replicas  int     `json:"replicas"`
		Workload  string  `json:"workload"`
		Bytes     float64 `json:"bytes"`
		CPUMillis float64 `json:"cpuMillis"`
	} `json:"results"`
}

// reportsHelp says what to do about a missing report.
const reportsHelp = "give --reports the docs/bench of a checkout, or a directory with all reports that docs/scale.md names"

// readReport decodes a report in a directory.
func readReport(dir, name string, into any) error {
	if err := render.ReadReport(filepath.Join(dir, name), into); err != nil {
		return fmt.Errorf("%w: %s", err, reportsHelp)
	}
	return nil
}
