package accounts

import (
	"bufio"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metrics is one scrape of a server.
type metrics struct {
	families map[string]family
	// series are values by name and labels, spelled as in the scrape.
	series map[string]float64
}

// family is the description of a metric, and the names of its labels.
type family struct {
	kind, help string
	labels     map[string]bool
}

var (
	labelName = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
	suffix    = regexp.MustCompile(`_(bucket|sum|count|total|created)$`)
)

// parse reads Prometheus' text format.
func parse(r io.Reader) (*metrics, error) {
	m := &metrics{families: map[string]family{}, series: map[string]float64{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			m.describe(comment)
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, err
		}
		m.series[line[:at]] = value
		if f, ok := m.family(line[:at]); ok {
			for _, l := range labelName.FindAllStringSubmatch(line[:at], -1) {
				f.labels[l[1]] = true
			}
		}
	}
	return m, lines.Err()
}

func (m *metrics) describe(comment string) {
	kind, rest, _ := strings.Cut(comment, " ")
	name, text, _ := strings.Cut(rest, " ")
	f, ok := m.families[name]
	if !ok {
		f.labels = map[string]bool{}
	}
	switch kind {
	case "TYPE":
		f.kind = text
	case "HELP":
		f.help = text
	}
	m.families[name] = f
}

// family finds the family of a series.
func (m *metrics) family(series string) (family, bool) {
	f, ok := m.families[familyName(m, series)]
	return f, ok
}

func familyName(m *metrics, series string) string {
	name, _, _ := strings.Cut(series, "{")
	if _, ok := m.families[name]; ok {
		return name
	}
	return suffix.ReplaceAllString(name, "")
}

// isKubernetesName reports whether a family has one of Kubernetes' names: not one of Go's
// runtime, the process, Millrace, or the embedded etcd.
func isKubernetesName(name string) bool {
	for _, prefix := range []string{"millrace_", "go_", "process_", "etcd_server_", "etcd_disk_", "etcd_network_", "etcd_mvcc_", "etcd_debugging_", "etcd_grpc_", "etcd_cluster_", "etcd_snap_", "grpc_server_", "os_fd_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// familiesOf merges the families of several scrapes of one server.
func familiesOf(scrapes ...*metrics) map[string]family {
	all := map[string]family{}
	for _, m := range scrapes {
		for name, f := range m.families {
			if known, ok := all[name]; ok {
				maps.Copy(f.labels, known.labels)
			}
			all[name] = f
		}
	}
	return all
}

// compareFamilies compares names, types, help texts and labels.
func compareFamilies(t *testing.T, ours, theirs map[string]family) {
	for _, name := range sortedKeys(ours, theirs) {
		if !isKubernetesName(name) || knownFamily(name) {
			continue
		}
		a, inOurs := ours[name]
		b, inTheirs := theirs[name]
		switch {
		case lateFamilies[name] && inOurs != inTheirs:
		case !inOurs:
			t.Errorf("family %s is missing", name)
		case !inTheirs:
			t.Errorf("family %s is not Kubernetes'", name)
		case a.kind != b.kind || a.help != b.help:
			t.Errorf("family %s: %s %q, not %s %q", name, a.kind, a.help, b.kind, b.help)
		case !maps.Equal(a.labels, b.labels):
			t.Errorf("family %s: labels %v, not %v", name, sortedKeys(a.labels, nil), sortedKeys(b.labels, nil))
		}
	}
}

// compareOpen compares gauges while watches are open.
func compareOpen(t *testing.T, before, open [2]*metrics) {
	for _, series := range sortedKeys(open[0].series, open[1].series) {
		name := familyName(open[1], series)
		f := open[1].families[name]
		if f.kind != "gauge" || !isDetermined(name, series) {
			continue
		}
		if a, b := open[0].series[series], open[1].series[series]; a != b {
			t.Errorf("%s is %v while watches are open, not %v", series, a, b)
		}
	}
}

// compareCounts compares how much the load has raised counters and histograms.
func compareCounts(t *testing.T, before, after [2]*metrics) {
	for _, series := range sortedKeys(after[0].series, after[1].series) {
		name := familyName(after[1], series)
		f := after[1].families[name]
		if f.kind == "" {
			f = after[0].families[name]
		}
		if f.kind == "gauge" || !isDetermined(name, series) {
			continue
		}
		a := after[0].series[series] - before[0].series[series]
		b := after[1].series[series] - before[1].series[series]
		switch {
		case strings.Contains(series, "_bucket{") && !exactSizes[name]:
		case f.kind == "histogram" && isSum(series):
			if !plausible(name, a, b) {
				t.Errorf("%s: %v more, not %v", series, a, b)
			}
		case a != b:
			t.Errorf("%s: %v more, not %v", series, a, b)
		}
	}
}

// plausible compares sums: exactly if the load determines them, within 2 % for sizes (the
// digits of revisions differ), and only by sign for times.
func plausible(name string, a, b float64) bool {
	switch {
	case exactSizes[name]:
		return a == b
	case strings.Contains(name, "sizes"):
		return math.Abs(a-b) <= 0.02*max(a, b)
	}
	return a >= 0 && b >= 0 && (a == 0) == (b == 0)
}

func isSum(series string) bool {
	name, _, _ := strings.Cut(series, "{")
	return strings.HasSuffix(name, "_sum")
}

// sortedKeys returns the keys of both maps, sorted.
func sortedKeys[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
