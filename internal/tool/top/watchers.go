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
	type resource = serverreport.ResourceWatchers
	drawTable(p, w.ByResource, []field[resource]{
		textField("RESOURCE", 50, func(r *resource) cell { return name(r.Resource) }),
		numberField("WATCHES", func(r *resource) cell { return count(r.Watches) }),
		numberField("SUBSCRIPTIONS", func(r *resource) cell { return count(r.Subscriptions) }),
		numberField("LOG EVENTS", func(r *resource) cell { return count(r.LogEvents) }),
		numberField("LOG BYTES", func(r *resource) cell { return size(r.LogBytes) }),
		numberField("LOG AGE", func(r *resource) cell { return seconds(r.LogSeconds) }),
	})
	if w.PassedOn > 0 {
		p.title(fmt.Sprintf("Passed on: %s more watches", display.Count(w.PassedOn)))
		drawPassedOn(p, w.PassedOnBy)
	}
}

// drawPassedOn draws a table of watches that are passed on.
func drawPassedOn(p *page, watches []serverreport.PassedOnWatches) {
	type passedOn = serverreport.PassedOnWatches
	drawTable(p, watches, []field[passedOn]{
		textField("CLIENT", 28, func(w *passedOn) cell { return name(agent(w.Client)) }),
		textField("RESOURCE", 40, func(w *passedOn) cell { return name(w.Resource) }),
		numberField("WATCHES", func(w *passedOn) cell { return count(w.Watches) }),
		textField("REASON", 0, func(w *passedOn) cell { return name(w.Reason) }),
		textField("USER", 40, func(w *passedOn) cell { return name(w.User) }),
	})
}

// drawBehind draws a table of watches that lag.
func drawBehind(p *page, watches []serverreport.Watcher) {
	type watch = serverreport.Watcher
	drawTable(p, watches, []field[watch]{
		textField("CLIENT", 28, func(w *watch) cell { return name(agent(w.Client)) }),
		textField("RESOURCE", 30, func(w *watch) cell { return name(w.Resource) }),
		textField("STATE", 0, func(w *watch) cell { return name(w.State) }),
		numberField("BEHIND", func(w *watch) cell {
			return flag(display.Seconds(w.BehindSeconds), w.BehindSeconds > behindWarningSeconds, warning)
		}),
		numberField("EVENTS", func(w *watch) cell { return count(w.BehindEvents) }),
		numberField("BYTES", func(w *watch) cell { return size(w.BehindBytes) }),
		numberField("AGE", func(w *watch) cell { return seconds(w.AgeSeconds) }),
		textField("USER", 40, func(w *watch) cell { return name(w.User) }),
		textField("ADDRESS", 0, func(w *watch) cell { return name(w.Address) }),
		textField("SELECTION", 50, func(w *watch) cell { return name(w.Selection) }),
		textField("ENCODING", 0, func(w *watch) cell { return name(w.Encoding) }).onlyWide(),
		textField("PROTOCOL", 0, func(w *watch) cell { return name(w.Protocol) }).onlyWide(),
	})
}
