package quiet

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	tables := []render.TitledTable{}
	for _, read := range reads() {
		tables = append(tables, r.readTable(read.kind))
	}
	return render.Document(format, nil, append(tables, r.pollTable()), r.footer())
}

// frontTitle returns where clients of a front read, in words.
func frontTitle(front string) string {
	switch front {
	case "":
		return "all fronts"
	case frontDirect:
		return "upstream"
	case frontProxy:
		return "proxy to the upstream"
	case frontAPI:
		return "replica, fed by the upstream"
	case frontEtcd:
		return "replica, fed by etcd"
	case frontReplica:
		return "replica of a replica"
	}
	return front
}

// readTable returns a table of the reads of one kind by one client.
func (r *report) readTable(kind string) render.TitledTable {
	t := render.TitledTable{
		Title: kind + ", one client",
		Table: render.Table{Columns: render.ColumnsOf("read at", "writes/s", "p50 ms", "p99 ms", "answered by a replica", "by the upstream")},
	}
	for i := range r.Results {
		res := &r.Results[i]
		if read := res.readsOf(kind); read != nil {
			t.Table.Add(frontTitle(res.Front), render.FormatNumber(res.WritesPerSec), render.FormatNumber(read.Millis.P50),
				render.FormatNumber(read.Millis.P99),
				fmt.Sprint(read.byReplica(res.Front)), fmt.Sprint(read.ByUpstream))
		}
	}
	return t
}

// byReplica returns the number of reads that a replica has answered.
func (r *readResult) byReplica(front string) int {
	if front == frontDirect || front == frontProxy {
		return 0
	}
	return r.Requests - r.ByUpstream
}

// pollTable returns a table of the answers to pollers, and of their costs.
func (r *report) pollTable() render.TitledTable {
	t := render.TitledTable{
		Title: "Pollers; the first row is subtracted from CPU and requests; % is of the cost of pollers at the upstream",
		Table: render.Table{Columns: []render.Column{
			{Title: "read at"}, {Title: "writes/s"}, {Title: "reads/s"}, {Title: "refused"}, {Group: "LIST", Title: "p50 ms"},
			{Group: "LIST", Title: "p99 ms"}, {Group: "GET", Title: "p50 ms"}, {Group: "GET", Title: "p99 ms"},
			{Title: "passed on"}, {Group: "upstream", Title: "CPU ms/s"}, {Group: "upstream", Title: "%"},
			{Group: "upstream", Title: "requests/s"}, {Group: "upstream", Title: "%"},
			{Title: "replicas CPU ms/s"}, {Title: "etcd CPU ms/s"},
		}},
	}
	row := func(res *result, reads []string, c *cost, cpuShare, requestShare string) {
		cells := slices.Concat([]string{frontTitle(res.Front), render.FormatNumber(res.WritesPerSec)}, reads,
			[]string{render.FormatNumber(c.UpstreamCPUMillis), cpuShare, render.FormatNumber(c.UpstreamRequests), requestShare,
				render.FormatNumber(c.ReplicaCPUMillis), render.FormatNumber(c.EtcdCPUMillis)})
		t.Table.Add(cells...)
	}
	direct := r.netCost(frontDirect)
	for i := range r.Polls {
		res := &r.Polls[i]
		list, get, c := res.readsOf(listNamespaces), res.readsOf(getNamespace), r.netCost(res.Front)
		if res.Front == frontNobody && res.Cost != nil {
			row(res, slices.Repeat([]string{"-"}, 7), res.Cost, "-", "-")
		}
		if list == nil || get == nil || c == nil {
			continue
		}
		answered, refused := list.Requests+get.Requests, list.Refused+get.Refused
		cells := []string{render.FormatNumber(float64(answered) / r.Plan.Duration.Seconds()), percent(float64(refused), float64(answered+refused))}
		for _, read := range []*readResult{list, get} {
			cells = append(cells, render.FormatNumber(read.Millis.P50), render.FormatNumber(read.Millis.P99))
		}
		passedOn, cpuShare, requestShare := "-", "-", "-"
		if res.Front != frontDirect {
			passedOn = percent(float64(list.ByUpstream+get.ByUpstream), float64(answered))
		}
		if direct != nil {
			cpuShare, requestShare = percent(c.UpstreamCPUMillis, direct.UpstreamCPUMillis), percent(c.UpstreamRequests, direct.UpstreamRequests)
		}
		row(res, append(cells, passedOn), c, cpuShare, requestShare)
	}
	return t
}

// percent formats the share of a in b, as in "2.30 %". It returns "-" if b is 0.
func percent(a, b float64) string {
	if b <= 0 {
		return "-"
	}
	return render.FormatNumber(100*a/b) + " %"
}

// plot returns a plot of the medians of one client.
func (r *report) plot() render.Plot {
	p := render.Plot{Title: "A read by one client, p50 in ms", Format: render.FormatNumber}
	for i := range r.Results {
		res := &r.Results[i]
		if res.Error != "" {
			continue
		}
		index := slices.IndexFunc(p.Series, func(s render.Series) bool { return s.Name == frontTitle(res.Front) })
		if index < 0 {
			index = len(p.Series)
			p.Series = append(p.Series, render.Series{Name: frontTitle(res.Front), Values: map[string]float64{}})
		}
		for _, read := range res.Reads {
			group := fmt.Sprintf("%s, %g writes/s", read.Kind, res.WriteRate)
			if !slices.Contains(p.Groups, group) {
				p.Groups = append(p.Groups, group)
			}
			p.Series[index].Values[group] = read.Millis.P50
		}
	}
	return p
}

// footer returns lines about the load and the machine, and what failed.
func (r *report) footer() []string {
	lines := []string{
		fmt.Sprintf("upstream: %s; etcd runs in a process of its own, and all processes share this machine", r.Upstream),
		fmt.Sprintf("%d namespaces and %d service accounts, which nobody writes; writes are to %d config maps; JSON over HTTP/2 and TLS",
			r.Plan.Namespaces, r.Plan.Accounts, r.Plan.ConfigMaps),
		fmt.Sprintf("one client sends %d requests of each kind to each front, %d at a turn, each after a pause of %s; %d pollers list and %d get, each once in %s, for %s", r.Plan.Requests, turn, r.Plan.Pause, r.Plan.Pollers, r.Plan.Pollers, r.Plan.Every, r.Plan.Duration),
		r.Machine.String() + ", " + r.Started.UTC().Format(time.RFC3339) + ", load average before: " + r.LoadAverage,
	}
	for _, results := range [][]result{r.Results, r.Polls} {
		for i := range results {
			res := &results[i]
			if res.Error != "" {
				lines = append(lines, fmt.Sprintf("failed: %s with %g writes/s: %s", frontTitle(res.Front), res.WriteRate, res.Error))
			}
		}
	}
	return lines
}
