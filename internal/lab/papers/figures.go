package papers

import (
	"slices"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// Section has figures that belong together.
type Section struct {
	Title  string  `json:"title"`
	Note   string  `json:"note,omitempty"`
	Rows   []Row   `json:"rows,omitempty"`
	Charts []Chart `json:"-"`
}

// Row is one figure: as published, and as measured at each server.
type Row struct {
	Name string `json:"name"`
	Unit Unit   `json:"unit"`
	// Published is the figure in the paper's own words. Empty: the paper has no such figure.
	Published string `json:"published,omitempty"`
	// PublishedValue is Published as a number, in Unit. It is 0 if Published is not a number, or
	// was measured with other counts than this run.
	PublishedValue float64 `json:"publishedValue,omitempty"`
	// Values has the measured figures by server, in Unit. A server without a figure is missing.
	Values map[string]float64 `json:"values,omitempty"`
}

// Unit is the unit of a figure. It decides how the figure is printed, and whether more is better.
type Unit string

const (
	unitSeconds Unit = "s"
	unitMillis  Unit = "ms"
	unitMicros  Unit = "µs"
	unitBytes   Unit = "B"
	unitSize    Unit = "size" // bytes without a ratio: sizes of answers, and small differences
	unitRate    Unit = "/s"   // more is better
	unitCount   Unit = ""
)

// format returns a figure with its unit.
func (u Unit) format(v float64) string {
	switch u {
	case unitBytes, unitSize:
		return render.FormatByteCount(v)
	case unitRate:
		return render.FormatNumber(v) + "/s"
	case unitCount:
		return render.FormatCount(v)
	}
	return render.FormatNumber(v) + " " + string(u)
}

// ratio returns how many times better ours is than other, such as 1.50×. It returns "" if one
// of them is unknown, or the unit has no ratios.
func (u Unit) ratio(other, ours float64) string {
	if u == unitCount || u == unitSize || other <= 0 || ours <= 0 {
		return ""
	}
	if u == unitRate {
		other, ours = ours, other
	}
	return render.FormatNumber(other/ours) + "×"
}

// Chart is a figure over time.
type Chart struct {
	Title string
	Unit  Unit
	Lines []Series
}

// Series is the line of one server. A point is a time in seconds and a value.
type Series struct {
	Server string
	Points [][2]float64
}

// serverNames returns pairs of a read path and its name in tables, in the order of columns.
func serverNames() [][2]string {
	return [][2]string{
		{testbed.ReadPathKubernetes, "stock read path"},
		{testbed.ReadPathStock, "kube-apiserver"},
		{testbed.ReadPathExisting, "this server"},
		{testbed.ReadPathEncoded, "Millrace, encoded by Kubernetes"},
		{testbed.ReadPathMillrace, "Millrace"},
	}
}

// serverName returns the name of a server in tables.
func serverName(server string) string {
	for _, n := range serverNames() {
		if n[0] == server {
			return n[1]
		}
	}
	return server
}

// measuredServers returns the servers that have a figure in any section, in the order of columns.
func measuredServers(sections []Section) (servers []string) {
	seen := map[string]bool{}
	for _, s := range sections {
		for _, r := range s.Rows {
			for server := range r.Values {
				seen[server] = true
			}
		}
	}
	for _, n := range serverNames() {
		if seen[n[0]] {
			servers = append(servers, n[0])
		}
	}
	return servers
}

// add adds a row, unless no server has a value and nothing was published. It removes zeros from
// the row's values.
func (s *Section) add(r Row) {
	for server, v := range r.Values {
		if v == 0 {
			delete(r.Values, server) // 0 means that it was not measured
		}
	}
	if len(r.Values) > 0 || r.Published != "" {
		s.Rows = append(s.Rows, r)
	}
}

// comparedServers returns the servers that Millrace is compared with. It returns nil if
// Millrace was not measured.
func comparedServers(servers []string) []string {
	if !slices.Contains(servers, testbed.ReadPathMillrace) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(servers),
		func(s string) bool { return s == testbed.ReadPathMillrace || s == testbed.ReadPathEncoded })
}

// cells returns the cells of a table's row: the name, the published figure, the figure of each
// server, and the ratio of each compared server to Millrace.
func (r *Row) cells(servers []string) []string {
	row := []string{r.Name, orDash(r.Published)}
	for _, s := range servers {
		cell := ""
		if v, ok := r.Values[s]; ok {
			cell = r.Unit.format(v)
		}
		row = append(row, orDash(cell))
	}
	for _, s := range comparedServers(servers) {
		row = append(row, orDash(r.Unit.ratio(r.Values[s], r.Values[testbed.ReadPathMillrace])))
	}
	return row
}

// headings returns the headings of the columns that cells fills.
func headings(servers []string) []string {
	all := []string{"figure", "published"}
	for _, s := range servers {
		all = append(all, serverName(s))
	}
	for _, s := range comparedServers(servers) {
		all = append(all, "ratio to "+serverName(s))
	}
	return all
}

// orDash returns text, or a dash if it is empty.
func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
