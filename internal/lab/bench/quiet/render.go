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
	type row struct {
		*result
		read *readResult
	}
	var rows []row
	for i := range r.Results {
		if read := r.Results[i].readsOf(kind); read != nil {
			rows = append(rows, row{&r.Results[i], read})
		}
	}
	var fields render.Fields[row]
	fields.Add("read at", func(r row) string { return frontTitle(r.Front) })
	fields.Add("writes/s", func(r row) string { return render.FormatNumber(r.WritesPerSec) })
	fields.Add("p50 ms", func(r row) string { return render.FormatNumber(r.read.Millis.P50) })
	fields.Add("p99 ms", func(r row) string { return render.FormatNumber(r.read.Millis.P99) })
	fields.Add("answered by a replica", func(r row) string { return fmt.Sprint(r.read.byReplica(r.Front)) })
	fields.Add("by the upstream", func(r row) string { return fmt.Sprint(r.read.ByUpstream) })
	return render.TitledTable{Title: kind + ", one client", Table: *fields.Table(rows)}
}

// byReplica returns the number of reads that a replica has answered.
func (r *readResult) byReplica(front string) int {
	if front == frontDirect || front == frontProxy {
		return 0
	}
	return r.Requests - r.ByUpstream
}

// pollRow is a row of pollTable.
type pollRow struct {
	*result
	// list and get are nil in the row of the front without pollers.
	list, get *readResult
	cost      *cost
}

// pollTable returns a table of the answers to pollers, and of their costs.
func (r *report) pollTable() render.TitledTable {
	var rows []pollRow
	for i := range r.Polls {
		res := &r.Polls[i]
		row := pollRow{res, res.readsOf(listNamespaces), res.readsOf(getNamespace), r.netCost(res.Front)}
		if res.Front == frontNobody && res.Cost != nil {
			row = pollRow{result: res, cost: res.Cost}
		} else if row.list == nil || row.get == nil || row.cost == nil {
			continue
		}
		rows = append(rows, row)
	}
	return render.TitledTable{
		Title: "Pollers; the first row is subtracted from CPU and requests; % is of the cost of pollers at the upstream",
		Table: *r.pollFields().Table(rows),
	}
}

// pollFields returns the columns of pollTable. Cells of reads are "-" without pollers.
func (r *report) pollFields() render.Fields[pollRow] {
	var fields render.Fields[pollRow]
	reads := func(group, title string, cell func(pollRow) string) {
		fields.AddToGroup(group, title, func(p pollRow) string {
			if p.list == nil {
				return "-"
			}
			return cell(p)
		})
	}
	number := func(group, title string, value func(*cost) float64) {
		fields.AddToGroup(group, title, func(p pollRow) string { return render.FormatNumber(value(p.cost)) })
	}
	direct := r.netCost(frontDirect)
	ofDirect := func(value func(*cost) float64) {
		reads("upstream", "%", func(p pollRow) string {
			if direct == nil {
				return "-"
			}
			return percent(value(p.cost), value(direct))
		})
	}
	upstreamCPU := func(c *cost) float64 { return c.UpstreamCPUMillis }
	upstreamRequests := func(c *cost) float64 { return c.UpstreamRequests }
	answered := func(p pollRow) float64 { return float64(p.list.Requests + p.get.Requests) }
	fields.Add("read at", func(p pollRow) string { return frontTitle(p.Front) })
	fields.Add("writes/s", func(p pollRow) string { return render.FormatNumber(p.WritesPerSec) })
	reads("", "reads/s", func(p pollRow) string { return render.FormatNumber(answered(p) / r.Plan.Duration.Seconds()) })
	reads("", "refused", func(p pollRow) string {
		refused := float64(p.list.Refused + p.get.Refused)
		return percent(refused, answered(p)+refused)
	})
	reads("LIST", "p50 ms", func(p pollRow) string { return render.FormatNumber(p.list.Millis.P50) })
	reads("LIST", "p99 ms", func(p pollRow) string { return render.FormatNumber(p.list.Millis.P99) })
	reads("GET", "p50 ms", func(p pollRow) string { return render.FormatNumber(p.get.Millis.P50) })
	reads("GET", "p99 ms", func(p pollRow) string { return render.FormatNumber(p.get.Millis.P99) })
	reads("", "passed on", func(p pollRow) string {
		if p.Front == frontDirect {
			return "-"
		}
		return percent(float64(p.list.ByUpstream+p.get.ByUpstream), answered(p))
	})
	number("upstream", "CPU ms/s", upstreamCPU)
	ofDirect(upstreamCPU)
	number("upstream", "requests/s", upstreamRequests)
	ofDirect(upstreamRequests)
	number("", "replicas CPU ms/s", func(c *cost) float64 { return c.ReplicaCPUMillis })
	number("", "etcd CPU ms/s", func(c *cost) float64 { return c.EtcdCPUMillis })
	return fields
}

// percent formats a/b, as in "2.30 %". It returns "-" if b is 0.
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
		fmt.Sprintf("one client sends %d requests of each kind to each front, %d per turn, each after a pause of %s; "+
			"%d pollers list and %d get, each once in %s, for %s",
			r.Plan.Requests, turn, r.Plan.Pause, r.Plan.Pollers, r.Plan.Pollers, r.Plan.Every, r.Plan.Duration),
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
