package model

import (
	"fmt"
	"path/filepath"

	"github.com/millrace/millrace/internal/tool/render"
)

// Files of reports that constants are derived from, and the commands that make them.
const (
	listFile       = "list.json"
	listEtcdFile   = "list-without-cache.json"
	watchFile      = "watch-1.37.json"
	coldFile       = "cold.json"
	coldLargeFile  = "cold-100000.json"
	definitionFile = "crd.json"
	replicaFile    = "replica.json"
	treeFile       = "tree.json"
	serversFile    = "servers.json" // for checks alone
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

// fleetRow is one setup with so many informers.
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

// fleetOpen is what it has cost that all informers began at once.
type fleetOpen struct {
	Seconds float64 `json:"seconds"`
	Writes  float64 `json:"writes"`
	fleetCosts
}

type fleetCosts struct {
	Upstream processCost   `json:"upstream"`
	Tiers    []processCost `json:"tiers"`
	Etcd     processCost   `json:"etcd"`
	// ClientSeconds is the CPU of the informers and of the writer.
	ClientSeconds float64 `json:"clientCPUSeconds"`
}

type processCost struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	SentBytes  float64 `json:"sentBytes"`
	RSSBytes   float64 `json:"rssBytes"`
}

// seconds is how long writes came.
func (r *fleetRow) seconds() float64 { return r.Writes / r.PerSecond }

// server is the processes at which informers read.
func (c *fleetCosts) server() *processCost {
	if len(c.Tiers) > 0 {
		return &c.Tiers[len(c.Tiers)-1]
	}
	return &c.Upstream
}

// replicas is how many replicas a row of a tree has at a depth.
func (r *fleetReport) replicas(depth int) float64 {
	if r.Fanout == 0 {
		return 1
	}
	n := 1.0
	for range depth {
		n *= float64(r.Fanout)
	}
	return n
}

// alone is the row of a setup in which nobody reads, or nil.
func (r *fleetReport) alone(setup string) *fleetRow { return r.find(setup, 0) }

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

// reportsHelp says what to do about a report that is not there.
const reportsHelp = "give --reports the docs/bench of a checkout, or a directory with all reports that docs/scale.md names"

func readReport(dir, name string, into any) error {
	if err := render.ReadReport(filepath.Join(dir, name), into); err != nil {
		return fmt.Errorf("%w: %s", err, reportsHelp)
	}
	return nil
}
