package price

import (
	"slices"
	"strconv"
)

// ListReport is a report of "millrace-lab bench list -o json", as far as prices need it.
type ListReport struct {
	Machine Machine      `json:"machine"`
	Servers []ListServer `json:"servers"`
	// Floor has the results of Go's HTTP server that sends the same bytes from memory.
	Floor ListResults `json:"floor"`
}

// ListServer is one server of a ListReport.
type ListServer struct {
	Name      string      `json:"name"`
	Version   string      `json:"version"`
	IdleBytes float64     `json:"idleBytes"` // resident memory before the first request
	Results   ListResults `json:"results"`
}

// ListResults are the results of one server.
type ListResults []ListResult

// ListResult is the mean cost of one request of a workload.
type ListResult struct {
	Workload string  `json:"workload"`
	Items    float64 `json:"items"`
	Bytes    float64 `json:"bytes"` // of the answer
	Server   struct {
		CPUMillis float64 `json:"cpuMillis"`
	} `json:"server"`
}

// server returns the server of a name, or a server without results if the report lacks it.
func (r *ListReport) server(name string) ListServer {
	i := slices.IndexFunc(r.Servers, func(s ListServer) bool { return s.Name == name })
	if i < 0 {
		return ListServer{}
	}
	return r.Servers[i]
}

// Workload returns the result of a workload, or zeros if the report lacks it.
func (all ListResults) Workload(workload string) ListResult {
	i := slices.IndexFunc(all, func(r ListResult) bool { return r.Workload == workload })
	if i < 0 {
		return ListResult{}
	}
	return all[i]
}

// micros returns the CPU of a request of a workload, in microseconds.
func (all ListResults) micros(workload string) float64 {
	return 1000 * all.Workload(workload).Server.CPUMillis
}

// WatchReport is a report of "millrace-lab bench watch -o json", as far as prices need it.
type WatchReport struct {
	Servers []struct {
		Name    string `json:"name"`
		Results []struct {
			Workload    string  `json:"workload"`
			Watchers    float64 `json:"watchers"`
			Connections float64 `json:"connections"`
			Server      struct {
				OpenMicros float64 `json:"cpuMicrosPerOpen"`
				NetMicros  float64 `json:"netCPUMicrosPerEvent"`
				RSSBytes   float64 `json:"rssBytes"`
			} `json:"server"`
		} `json:"results"`
		Informers []struct {
			Workload    string  `json:"workload"`
			MillisPerMB float64 `json:"cpuMillisPerMB"`
		} `json:"informers"`
	} `json:"servers"`
}

// ThreeDigits rounds to three significant digits: measurements are not more precise.
func ThreeDigits(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // FormatFloat's text always parses
	return rounded
}
