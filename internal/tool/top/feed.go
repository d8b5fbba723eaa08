package top

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// drawFeed draws the feeds from etcd, and below them the probe and the process, if the server has
// an SLO report.
func drawFeed(p *page, r *reports) {
	rows := make([][]cell, 0, len(r.Feed.Feeds))
	for _, f := range r.Feed.Feeds {
		health, healthStyle := feedHealth(&f)
		rows = append(rows, []cell{
			name(f.Prefix), {health, healthStyle}, text(fmt.Sprint(f.Revision)), seconds(f.Delivery.P50), seconds(f.Delivery.P99), seconds(f.Delivery.Max),
			count(f.Events), size(f.Bytes), count(f.Restarts), count(f.Loads), name(strings.Join(f.Endpoints, ",")),
		})
	}
	p.table([]column{
		{head: "PREFIX"}, {head: "HEALTH", maxWidth: 60}, {head: "REVISION", right: true}, {head: "P50", right: true}, {head: "P99", right: true}, {head: "MAX", right: true},
		{head: "EVENTS", right: true}, {head: "BYTES", right: true}, {head: "RESTARTS", right: true}, {head: "LOADS", right: true}, {head: "ETCD"},
	}, rows)
	if r.SLO == nil {
		return
	}
	p.blank()
	if probe := r.SLO.Probe; probe == nil {
		p.line(dim, "Probe     off (start the server with --watch-probe)")
	} else {
		state := "ok"
		if probe.Error != "" {
			state = display.Clean(probe.Error)
		}
		p.line(styleIf(probe.Error != "", critical), fmt.Sprintf("Probe     %s  write to event p50 %s  p99 %s  response to event p99 %s  pending %s", state,
			display.Seconds(probe.Whole.P50), display.Seconds(probe.Whole.P99), display.Seconds(probe.Commit.P99), display.Seconds(probe.PendingSeconds)))
	}
	s := r.SLO.Process
	p.line(plain, fmt.Sprintf("Process   %.2f of %d CPUs  timer delay p50 %s  p99 %s  max %s",
		s.CPU, s.Processors, display.Seconds(s.Delay.P50), display.Seconds(s.Delay.P99), display.Seconds(s.Delay.Max)))
}

// feedHealth returns the state of a feed in words, and their style.
func feedHealth(f *serverreport.Feed) (string, style) {
	switch {
	case f.Error != "":
		return "✗ " + display.Clean(f.Error), critical
	case f.LateSeconds > 0:
		return "! late " + display.Seconds(f.LateSeconds), warning
	}
	return "✓ in time", good
}
