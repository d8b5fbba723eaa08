package papers

import (
	"slices"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// Section is some figures that belong together.
type Section struct {
	Title  string  `json:"title"`
	Note   string  `json:"note,omitempty"`
	Rows   []Row   `json:"rows,omitempty"`
	Charts []Chart `json:"-"`
}

// Row is one figure: as published, and of each server that was measured.
type Row struct {
	Name string `json:"name"`
	Unit Unit   `json:"unit"`
	// Published is the figure in the paper's own words. Empty: it has none.
	Published string `json:"published,omitempty"`
	// PublishedValue is Published as a number. 0: it is no number, or not for the same amount.
	PublishedValue float64 `json:"publishedValue,omitempty"`
	// Values are by server. What was not measured has none.
	Values map[string]float64 `json:"values,omitempty"`
}

// Unit says how a figure is printed, and whether more of it is better.
type Unit string

const (
	unitSeconds Unit = "s"
	unitMillis  Unit = "ms"
	unitMicros  Unit = "µs"
	unitBytes   Unit = "B"
	unitSize    Unit = "size" // bytes that are not compared: sizes of what is sent, and small differences
	unitRate    Unit = "/s"   // more is better
	unitCount   Unit = ""
)

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

// ratio is how many times better ours is than other. It is empty if either is unknown.
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

// Series is the line of one server. A point is a time in seconds, and a value.
type Series struct {
	Server string
	Points [][2]float64
}

// serverNames are how servers are called in tables, in their order.
func serverNames() [][2]string {
	return [][2]string{
		{testbed.ReadPathKubernetes, "stock read path"},
		{testbed.ReadPathStock, "kube-apiserver"},
		{testbed.ReadPathExisting, "this server"},
		{testbed.ReadPathEncoded, "Millrace, encoded by Kubernetes"},
		{testbed.ReadPathMillrace, "Millrace"},
	}
}

// serverName is how a server is called in tables.
func serverName(server string) string {
	for _, n := range serverNames() {
		if n[0] == server {
			return n[1]
		}
	}
	return server
}

// serversOf are the servers that have a figure in any section, in the order of tables.
func serversOf(sections []Section) (servers []string) {
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

// add adds a row, unless no server has a value and nothing was published.
func (s *Section) add(r Row) {
	for server, v := range r.Values {
		if v == 0 {
			delete(r.Values, server) // not measured, or not readable
		}
	}
	if len(r.Values) > 0 || r.Published != "" {
		s.Rows = append(s.Rows, r)
	}
}

// compared are the servers that Millrace is compared with, if it was measured.
func compared(servers []string) []string {
	if !slices.Contains(servers, testbed.ReadPathMillrace) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(servers), func(s string) bool { return s == testbed.ReadPathMillrace || s == testbed.ReadPathEncoded })
}

// cells are a row of a table: name, published, each server, and how many times better Millrace
// is than each other one.
func (r *Row) cells(servers []string) []string {
	row := []string{r.Name, orDash(r.Published)}
	for _, s := range servers {
		cell := ""
		if v, ok := r.Values[s]; ok {
			cell = r.Unit.format(v)
		}
		row = append(row, orDash(cell))
	}
	for _, s := range compared(servers) {
		row = append(row, orDash(r.Unit.ratio(r.Values[s], r.Values[testbed.ReadPathMillrace])))
	}
	return row
}

// headings are those of cells.
func headings(servers []string) []string {
	all := []string{"figure", "published"}
	for _, s := range servers {
		all = append(all, serverName(s))
	}
	for _, s := range compared(servers) {
		all = append(all, "ratio to "+serverName(s))
	}
	return all
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
