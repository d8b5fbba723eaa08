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
	var fields render.Fields[*result]
	fields.Add("server, clients", func(r *result) string { return r.name() })
	fields.Add("ready, s", func(r *result) string { return render.FormatNumber(r.ReadySeconds) })
	synced := func(title string, percent int) {
		fields.AddToGroup("informers synced, s", title, func(r *result) string { return render.FormatNumber(r.syncedSeconds(percent)) })
	}
	synced("50 %", 50)
	synced("90 %", 90)
	synced("99 %", 99)
	synced("all", 100)
	fields.Add("CPU, s", func(r *result) string { return render.FormatNumber(r.CPUSeconds) })
	fields.Add("peak", func(r *result) string { return render.FormatBytes(r.PeakBytes) })
	return render.TitledTable{
		Title: "From the start of the server until all informers are synced",
		Table: *fields.Table(r.measuredStorms()),
	}
}

// clientTable returns a table of what clients met: LISTs, refusals, failures and GETs.
func (r *report) clientTable() render.TitledTable {
	const group = "GET of a bystander"
	var fields render.Fields[*result]
	fields.Add("server, clients", func(r *result) string { return r.name() })
	fields.Add("lists", func(r *result) string { return fmt.Sprint(r.Lists) })
	fields.Add("429", func(r *result) string { return fmt.Sprint(r.Refused) })
	fields.Add("failed", func(r *result) string { return fmt.Sprint(r.failureCount()) })
	fields.Add("sent", func(r *result) string { return render.FormatBytes(r.SentBytes) })
	fields.AddToGroup(group, "first, s", func(r *result) string { return render.FormatNumber(r.FirstGetSeconds) })
	fields.AddToGroup(group, "p50 ms", func(r *result) string { return render.FormatNumber(r.GetMillis.P50) })
	fields.AddToGroup(group, "p99 ms", func(r *result) string { return render.FormatNumber(r.GetMillis.P99) })
	return render.TitledTable{Title: "What clients met until all informers were synced", Table: *fields.Table(r.measuredStorms())}
}

// plot returns a plot of the fraction of synced informers over time. It has a panel for each storm,
// and a line for each server.
func (r *report) plot() render.SharePlot {
	p := render.SharePlot{Title: fmt.Sprintf("The start storm of %s nodes: fraction of informers that are synced",
		display.Count(int64(r.Plan.Nodes))), XTitle: "seconds since the start of the server"}
	for _, panel := range []struct{ clients, title string }{
		{clientsNew, "New clients that list all objects"}, {clientsReturning, "The same clients when the server is killed and restarted"},
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
		name := kind.Message
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
		fmt.Sprintf("new clients start within %s; returning clients had run for %s, and then no server for %s", r.Plan.Within,
			r.Plan.Rest, r.Plan.Down),
		fmt.Sprintf("a bystander is to send a GET every %s; p50 and p99 are from when a GET is due, after the first answer", getEvery),
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
