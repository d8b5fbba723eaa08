package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// drawReplica draws what a replica holds of its upstream, and what it passed on.
func drawReplica(p *page, r *serverreport.ReplicaReport) {
	p.line(bold, fmt.Sprintf("%s %s, through %s, at depth %d; Kubernetes %s is built in here",
		display.Clean(r.Upstream), display.Clean(r.UpstreamVersion), display.Clean(r.Source), r.Depth, display.Clean(r.OwnVersion)))
	if r.Skew != "" {
		p.line(plain, display.Clean(r.Skew))
	}
	p.line(plain, fmt.Sprintf("%s reads answered here, %s requests answered by the upstream, %s refused here",
		display.Count(total(r.Answered)), display.Count(total(r.UpstreamRequests)), display.Count(total(r.Refused))))
	spared := &r.Spared
	p.line(plain, fmt.Sprintf("Upstream was spared %s requests, %s events, %s, and by an estimate at least %s of CPU",
		display.Count(spared.Requests), display.Count(spared.Events), display.Size(spared.RequestBytes+spared.EventBytes), display.Seconds(spared.CPUSeconds)))
	drawFollowed(p, r.Followed)
	p.title("GETs and LISTs by resource, last ten minutes")
	type reads = serverreport.ResourceReads
	drawTable(p, r.Reads, []field[reads]{
		textField("RESOURCE", 50, func(x *reads) cell { return name(x.Resource) }),
		numberField("REQUESTS", func(x *reads) cell { return count(x.Requests) }),
		numberField("CACHE", func(x *reads) cell { return count(x.Requests - x.Shared - x.PassedOn) }),
		numberField("SHARED", func(x *reads) cell { return count(x.Shared) }),
		numberField("PASSED ON", func(x *reads) cell { return count(x.PassedOn) }),
		numberField("OF ALL", func(x *reads) cell { return text(passedOnPercent(x.PassedOn, x.Requests)) }),
	})
	p.title("Answered here")
	drawCounts(p, "VERB", r.Answered)
	p.title("Not answered here")
	drawCounts(p, "REASON", r.PassedOn)
	p.title("Upstream asked for clients")
	drawCounts(p, "USER NAMED BY", r.UpstreamRequests)
	if len(r.Refused) > 0 {
		p.title("Refused here")
		drawCounts(p, "REASON", r.Refused)
	}
}

// drawFollowed draws the resources that are followed or refused. Below the table it draws advice on
// each refusal.
func drawFollowed(p *page, followed []serverreport.FollowedResource) {
	p.title("Followed")
	type resource = serverreport.FollowedResource
	unlessRefused := func(f *resource, c cell) cell {
		if f.Refused != "" {
			return text("-")
		}
		return c
	}
	drawTable(p, followed, []field[resource]{
		textField("RESOURCE", 50, func(f *resource) cell { return name(f.Name) }),
		textField("STATE", 70, followState),
		numberField("OBJECTS", func(f *resource) cell { return unlessRefused(f, count(f.Objects)) }),
		numberField("REVISION", func(f *resource) cell { return unlessRefused(f, text(fmt.Sprint(f.Revision))) }),
		numberField("HEARD", func(f *resource) cell { return text(heardText(f.SinceHeardSeconds)) }),
	})
	for _, f := range followed {
		if f.Refused != "" {
			drawAdvice(p, f.Name, []string{f.Error})
		}
	}
}

// followState returns the state of a resource's feed.
func followState(f *serverreport.FollowedResource) cell {
	switch {
	case f.Refused != "":
		return cell{"! not followed: " + display.Clean(f.Refused), warning}
	case f.BrokenSeconds > 0:
		return cell{fmt.Sprintf("✗ broken for %s: %s", display.Seconds(f.BrokenSeconds), display.Clean(f.Error)), critical}
	case f.Error != "":
		return cell{"! " + display.Clean(f.Error), warning}
	}
	return cell{"✓ follows", good}
}

// heardText returns how long ago a feed last heard from its source, as text.
func heardText(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return display.Seconds(seconds) + " ago"
}

// drawCounts draws a table of counts, the largest first. head is the title of their names.
func drawCounts(p *page, head string, counts map[string]uint64) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	drawTable(p, names, []field[string]{
		textField(head, 0, func(n *string) cell { return name(*n) }),
		numberField("REQUESTS", func(n *string) cell { return count(counts[*n]) }),
	})
}

// total returns the sum of counts.
func total(counts map[string]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// countUnfollowed returns the number of resources whose feeds are broken, and the number of
// resources that the upstream refuses.
func countUnfollowed(r *serverreport.ReplicaReport) (broken, refused int) {
	for _, f := range r.Followed {
		switch {
		case f.Refused != "":
			refused++
		case f.Error != "":
			broken++
		}
	}
	return broken, refused
}
