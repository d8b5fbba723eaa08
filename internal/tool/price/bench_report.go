package price

import (
	"slices"
	"strconv"
)

// ListReport is a report of "millrace-lab bench list -o json", as far as prices need it.
type ListReport struct {
	Machine Machine      `json:"machine"`
	Servers []ListServer `json:"servers"`
	// Floor has what sending the same bytes costs Go's own server.
	Floor ListResults `json:"floor"`
}

// ListServer is one server of a ListReport.
type ListServer struct {
	Name      string      `json:"name"`
	Version   string      `json:"version"`
	IdleBytes float64     `json:"idleBytes"`
	Results   ListResults `json:"results"`
}

// ListResults are the results of one server.
type ListResults []ListResult

// ListResult is what the requests of one workload cost.
type ListResult struct {
	Workload string  `json:"workload"`
	Items    float64 `json:"items"`
	Bytes    float64 `json:"bytes"`
	Server   struct {
		CPUMillis float64 `json:"cpuMillis"`
	} `json:"server"`
}

// server returns the server of a name, and one without results if there is none.
func (r *ListReport) server(name string) ListServer {
	i := slices.IndexFunc(r.Servers, func(s ListServer) bool { return s.Name == name })
	if i < 0 {
		return ListServer{}
	}
	return r.Servers[i]
}

// Of returns the result of a workload, and zeros if there is none.
func (all ListResults) Of(workload string) ListResult {
	i := slices.IndexFunc(all, func(r ListResult) bool { return r.Workload == workload })
	if i < 0 {
		return ListResult{}
	}
	return all[i]
}

func (all ListResults) micros(workload string) float64 {
	return 1000 * all.Of(workload).Server.CPUMillis
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

// ThreeDigits rounds to three significant digits: there are no more in a measurement.
func ThreeDigits(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // its own format
	return rounded
}
