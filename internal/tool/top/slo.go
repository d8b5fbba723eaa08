package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// drawCauses draws the current problems of watch events and of a replica's reads, each with its
// message and advice.
func drawCauses(p *page, r *reports) {
	s := r.SLO
	causes := s.Causes
	if r.Replica != nil {
		causes = slices.Concat(causes, r.Replica.Causes)
	}
	switch {
	case len(causes) > 0:
		p.line(bold, "What is wrong now")
	case s.Met:
		p.line(good, "✓ Nothing is wrong: every objective is met.")
	default:
		p.line(warning, "! An objective was missed in the last minute; no cause is seen now.")
	}
	for _, c := range causes {
		mark, style := "!", warning
		if c.Severity == "critical" {
			mark, style = "✗", critical
		}
		subject := strings.TrimSpace(display.Clean(c.Resource) + "  " + display.Clean(c.Client))
		p.line(style, strings.TrimRight(fmt.Sprintf("%s %s (%s)  %s", mark, causeWords(c.Cause), display.Clean(c.Severity), subject), " "))
		p.paragraph(plain, "  ", display.Clean(c.Message))
		if c.Advice != "" {
			p.paragraph(accent, "  → ", display.Clean(c.Advice))
		}
	}
}

// drawSLO draws the current problems, the resources, and the slowest stages, clients and
// subscriptions.
func drawSLO(p *page, r *reports) {
	s := r.SLO
	drawCauses(p, r)
	p.title("By resource")
	drawResources(p, s.Resources)
	p.title("Stages of all events")
	type stage = serverreport.StageTime
	drawTable(p, s.All.Stages, []field[stage]{
		textField("STAGE", 0, func(s *stage) cell { return name(string(s.Stage)) }),
		numberField("SHARE", func(s *stage) cell { return text(display.Percent(s.Share)) }),
		numberField("P50", func(s *stage) cell { return seconds(s.P50) }),
		numberField("P99", func(s *stage) cell { return seconds(s.P99) }),
		numberField("P99.9", func(s *stage) cell { return seconds(s.P999) }),
		numberField("MAX", func(s *stage) cell { return seconds(s.Max) }),
	})
	p.title("Slowest clients")
	type client = serverreport.ClientSLO
	drawTable(p, s.Clients, []field[client]{
		textField("CLIENT", 40, func(c *client) cell { return name(agent(c.Client)) }),
		numberField("P99", func(c *client) cell { return seconds(c.Spans.P99) }),
		numberField("LATE", func(c *client) cell { return count(c.Late) }),
		numberField("WATCHES", func(c *client) cell { return count(c.Watches) }),
		textField("WAITS FOR", 0, func(c *client) cell { return text(causeWords(c.Cause)) }),
		textField("USER", 50, func(c *client) cell { return name(c.User) }),
	})
	p.title("Slowest subscriptions")
	type subscription = serverreport.SubscriptionSLO
	drawTable(p, s.Subscriptions, []field[subscription]{
		textField("RESOURCE", 40, func(s *subscription) cell { return name(s.Resource) }),
		numberField("P99", func(s *subscription) cell { return seconds(s.Spans.P99) }),
		numberField("WATCHES", func(s *subscription) cell { return count(s.Watches) }),
		numberField("EVENTS", func(s *subscription) cell { return count(s.Events) }),
		textField("SELECTION", 60, func(s *subscription) cell { return name(s.Selection) }),
	})
}

// drawResources draws a table with the objective of each resource, whether it is met, and the burn
// rates.
func drawResources(p *page, resources []serverreport.ResourceSLO) {
	type resource = serverreport.ResourceSLO
	drawTable(p, resources, []field[resource]{
		textField("RESOURCE", 40, func(r *resource) cell { return name(r.Resource) }),
		textField("OBJECTIVE", 0, func(r *resource) cell {
			if r.Met {
				return cell{"✓ met", good}
			}
			return cell{"✗ missed", critical}
		}),
		numberField("P99", func(r *resource) cell { return flag(display.Seconds(r.Spans.P99), !r.Met, critical) }),
		numberField("OF", func(r *resource) cell { return seconds(r.ObjectiveSeconds) }),
		numberField("P50", func(r *resource) cell { return seconds(r.Spans.P50) }),
		numberField("P99.9", func(r *resource) cell { return seconds(r.Spans.P999) }),
		numberField("LATE", func(r *resource) cell { return count(r.Late) }),
		numberField("EVENTS", func(r *resource) cell { return count(r.Spans.Count) }),
		numberField("BURN5M", func(r *resource) cell {
			return flag(display.BurnRate(r.Burn.FiveMinutes), r.Burn.FiveMinutes > 1, critical)
		}),
		numberField("1H", func(r *resource) cell { return text(display.BurnRate(r.Burn.Hour)) }),
		numberField("6H", func(r *resource) cell { return text(display.BurnRate(r.Burn.SixHours)) }),
		textField("WAITS FOR", 0, func(r *resource) cell { return text(waitsFor(r)) }),
		numberField("SENT", func(r *resource) cell { return size(r.Bytes) }).onlyWide(),
	})
}

// waitsFor returns the main cause of late events in words, or "-" if none was late.
func waitsFor(r *serverreport.ResourceSLO) string {
	if r.Late == 0 {
		return "-"
	}
	return causeWords(r.Cause)
}

// causeWords returns a cause in words, or "-" for none.
func causeWords(c serverreport.Cause) string {
	switch c {
	case "":
		return "-"
	case serverreport.CauseCPU:
		return "not enough CPU"
	case serverreport.CauseSize:
		return "large objects"
	case serverreport.CauseUnreadable:
		return "unreadable objects"
	case serverreport.CausePanic:
		return "panic"
	case serverreport.Cause(serverreport.StageEtcd):
		return "etcd is slow"
	case serverreport.Cause(serverreport.StageClient):
		return "clients do not read"
	case serverreport.Cause(serverreport.StageConnection):
		return "network is full"
	}
	return display.Clean(string(c))
}
