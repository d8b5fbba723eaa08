package storm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report in any format but JSON.
func (r *report) text(format string) string {
	if format == render.SVG {
		return r.plot().SVG()
	}
	return render.Document(format, nil, []render.TitledTable{r.syncTable(), r.clientTable()}, r.footer())
}

// measuredStorms returns the storms that were measured, new clients first.
func (r *report) measuredStorms() (all []*result) {
	for _, clients := range []string{clientsNew, clientsReturning} {
		for i := range r.Results {
			if res := &r.Results[i]; res.Clients == clients && res.Error == "" {
				all = append(all, res)
			}
		}
	}
	return all
}

// syncTable returns a table of the times until informers are synced, and of the server's costs.
func (r *report) syncTable() render.TitledTable {
	const group = "informers synced, s"
	t := render.TitledTable{Title: "From the start of the server until all informers are synced", Table: render.Table{Columns: []render.Column{
		{Title: "server, clients"}, {Title: "ready, s"},
		{Group: group, Title: "50 %"}, {Group: group, Title: "90 %"}, {Group: group, Title: "99 %"}, {Group: group, Title: "all"},
		{Title: "CPU, s"}, {Title: "peak"},
	}}}
	for _, res := range r.measuredStorms() {
		t.Table.Add(res.name(), render.FormatNumber(res.ReadySeconds),
			render.FormatNumber(res.syncedSeconds(50)), render.FormatNumber(res.syncedSeconds(90)),
			render.FormatNumber(res.syncedSeconds(99)), render.FormatNumber(res.syncedSeconds(100)),
			render.FormatNumber(res.CPUSeconds), render.FormatBytes(res.PeakBytes))
	}
	return t
}

// clientTable returns a table of what clients met: LISTs, refusals, failures and GETs.
func (r *report) clientTable() render.TitledTable {
	const group = "GET of a bystander"
	t := render.TitledTable{Title: "What clients met until then", Table: render.Table{Columns: []render.Column{
		{Title: "server, clients"}, {Title: "lists"}, {Title: "429"}, {Title: "failed"}, {Title: "sent"},
		{Group: group, Title: "first, s"}, {Group: group, Title: "p50 ms"}, {Group: group, Title: "p99 ms"},
	}}}
	for _, res := range r.measuredStorms() {
		t.Table.Add(res.name(), fmt.Sprint(res.Lists), fmt.Sprint(res.Refused), fmt.Sprint(res.failureCount()), render.FormatBytes(res.SentBytes),
			render.FormatNumber(res.FirstGetSeconds), render.FormatNumber(res.GetMillis.P50), render.FormatNumber(res.GetMillis.P99))
	}
	return t
}

// plot returns a plot of the share of synced informers over time. It has a panel for each storm, and a
// line for each server.
func (r *report) plot() render.SharePlot {
	p := render.SharePlot{Title: fmt.Sprintf("The start storm of %s nodes: share of informers that are synced",
		display.Count(int64(r.Plan.Nodes))), XTitle: "seconds since the start of the server"}
	for _, panel := range []struct{ clients, title string }{
		{clientsNew, "New clients, which list everything"}, {clientsReturning, "The same clients when the server is killed and restarted"},
	} {
		shares := render.SharePanel{Title: panel.title}
		for _, res := range r.measuredStorms() {
			if res.Clients == panel.clients {
				name := fmt.Sprintf("%s: all after %s s, %s s of CPU, %s at most", res.server(),
					render.FormatNumber(res.syncedSeconds(100)), render.FormatNumber(res.CPUSeconds), render.FormatBytes(res.PeakBytes))
				shares.Lines = append(shares.Lines, render.ShareLine{Name: name, Percentiles: res.SyncedSeconds})
			}
		}
		p.Panels = append(p.Panels, shares)
	}
	return p
}

// shownKinds bounds the kinds of failures in the footer.
const shownKinds = 4

// failureText returns the numbers of requests that failed, by status or by error.
func (r *result) failureText() string {
	var names, parts []string
	counts := map[string]int64{}
	for _, kind := range r.Failures {
		name := kind.What
		if status, _, _ := strings.Cut(name, " "); len(status) == 3 && strings.Trim(status, "0123456789") == "" {
			name = status
		}
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name] += kind.Count
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for _, name := range names[:min(len(names), shownKinds)] {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[name], name))
	}
	if parts == nil {
		return "nothing failed"
	}
	return "failed: " + strings.Join(parts, ", ")
}

// footer returns lines about the load, the failures and the machine.
func (r *report) footer() []string {
	programs := strings.Join(append([]string{"kubelet", "kube-proxy"}, r.Plan.Agents...), ", ")
	lines := []string{
		fmt.Sprintf("%s; on each node %s, each with a connection and a user of its own", r.Data, programs),
		fmt.Sprintf("new clients begin within %s; returning ones had run for %s, and no server for %s", r.Plan.Within, r.Plan.Rest, r.Plan.Down),
		fmt.Sprintf("a bystander is to send a GET each %s; p50 and p99 are from when one is due, after the first answer", getEvery),
		"etcd runs in a process of its own, and all processes share this machine",
		r.Machine.String() + ", " + r.Started.UTC().Format(time.RFC3339) + ", load average before: " + r.LoadAverage,
	}
	for _, res := range r.measuredStorms() {
		lines = append(lines, fmt.Sprintf("%s: %d informers; CPU of etcd %s s, of clients %s s; %s", res.name(), res.Informers,
			render.FormatNumber(res.EtcdCPUSeconds), render.FormatNumber(res.ClientCPUSeconds), res.failureText()))
	}
	for i := range r.Results {
		if res := &r.Results[i]; res.Error != "" {
			lines = append(lines, fmt.Sprintf("not measured: %s: %s", res.name(), res.Error))
		}
	}
	return lines
}
