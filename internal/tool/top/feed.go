package top

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// drawFeed draws the feeds from etcd. Below them it draws the probe and the process, if the server
// has an SLO report.
func drawFeed(p *page, r *reports) {
	type feed = serverreport.Feed
	drawTable(p, r.Feed.Feeds, []field[feed]{
		textField("PREFIX", 0, func(f *feed) cell { return name(f.Prefix) }),
		textField("HEALTH", 60, func(f *feed) cell {
			health, style := feedHealth(f)
			return cell{health, style}
		}),
		numberField("REVISION", func(f *feed) cell { return text(fmt.Sprint(f.Revision)) }),
		numberField("P50", func(f *feed) cell { return seconds(f.Delivery.P50) }),
		numberField("P99", func(f *feed) cell { return seconds(f.Delivery.P99) }),
		numberField("MAX", func(f *feed) cell { return seconds(f.Delivery.Max) }),
		numberField("EVENTS", func(f *feed) cell { return count(f.Events) }),
		numberField("BYTES", func(f *feed) cell { return size(f.Bytes) }),
		numberField("RESTARTS", func(f *feed) cell { return count(f.Restarts) }),
		numberField("LOADS", func(f *feed) cell { return count(f.Loads) }),
		textField("ETCD", 0, func(f *feed) cell { return name(strings.Join(f.Endpoints, ",")) }),
	})
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
		p.line(styleIf(probe.Error != "", critical), fmt.Sprintf(
			"Probe     %s  write to event p50 %s  p99 %s  response to event p99 %s  pending %s", state,
			display.Seconds(probe.Whole.P50), display.Seconds(probe.Whole.P99), display.Seconds(probe.Commit.P99), display.Seconds(probe.PendingSeconds)))
	}
	s := r.SLO.Process
	p.line(plain, fmt.Sprintf("Process   %.2f of %d CPUs  timer delay p50 %s  p99 %s  max %s",
		s.CPU, s.Processors, display.Seconds(s.Delay.P50), display.Seconds(s.Delay.P99), display.Seconds(s.Delay.Max)))
}

// feedHealth returns the state of a feed in words, and the style of the words.
func feedHealth(f *serverreport.Feed) (string, style) {
	switch {
	case f.Error != "":
		return "✗ " + display.Clean(f.Error), critical
	case f.LateSeconds > 0:
		return "! late " + display.Seconds(f.LateSeconds), warning
	}
	return "✓ in time", good
}
