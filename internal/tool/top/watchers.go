package top

import (
	"fmt"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// behindWarningSeconds is the lag above which a watch is drawn as a warning.
const behindWarningSeconds = 10

// drawWatchers draws the numbers of watches, the watches that lag the most, and the watches
// by resource.
func drawWatchers(p *page, w *serverreport.WatchersReport) {
	p.line(bold, fmt.Sprintf("%s watches in %s subscriptions by %s clients, %s waiting",
		display.Count(w.Watches), display.Count(w.Subscriptions), display.Count(w.Clients), display.Count(w.Waiting)))
	p.line(plain, fmt.Sprintf("%s events and %s sent since the start, %s watches told to list again",
		display.Count(w.Events), display.Size(w.Bytes), display.Count(w.Expired)))
	p.title("Furthest behind")
	if len(w.Behind) == 0 {
		p.line(dim, "none")
	} else {
		drawBehind(p, w.Behind)
	}
	p.title("By resource")
	rows := make([][]cell, 0, len(w.ByResource))
	for _, r := range w.ByResource {
		rows = append(rows, []cell{name(r.Resource), count(r.Watches), count(r.Subscriptions), count(r.LogEvents), size(r.LogBytes), seconds(r.LogSeconds)})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 50}, {head: "WATCHES", right: true}, {head: "SUBSCRIPTIONS", right: true}, {head: "LOG EVENTS", right: true},
		{head: "LOG BYTES", right: true}, {head: "LOG AGE", right: true},
	}, rows)
}

// drawBehind draws a table of watches that lag.
func drawBehind(p *page, all []serverreport.Watcher) {
	rows := make([][]cell, 0, len(all))
	for _, w := range all {
		rows = append(rows, []cell{
			name(agent(w.Client)), name(w.Resource), name(w.State),
			flag(display.Seconds(w.BehindSeconds), w.BehindSeconds > behindWarningSeconds, warning), count(w.BehindEvents), size(w.BehindBytes),
			seconds(w.AgeSeconds), name(w.User), name(w.Address), name(w.Selection), name(w.Encoding), name(w.Protocol),
		})
	}
	p.table([]column{
		{head: "CLIENT", maxWidth: 28}, {head: "RESOURCE", maxWidth: 30}, {head: "STATE"}, {head: "BEHIND", right: true}, {head: "EVENTS", right: true}, {head: "BYTES", right: true},
		{head: "AGE", right: true}, {head: "USER", maxWidth: 40}, {head: "ADDRESS"}, {head: "SELECTION", maxWidth: 50}, {head: "ENCODING", wide: true}, {head: "PROTOCOL", wide: true},
	}, rows)
}
