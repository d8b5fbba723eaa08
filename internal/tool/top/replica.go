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
	reads := make([][]cell, 0, len(r.Reads))
	for _, x := range r.Reads {
		reads = append(reads, []cell{
			name(x.Resource), count(x.Requests), count(x.Requests - x.Shared - x.PassedOn),
			count(x.Shared), count(x.PassedOn), text(passedOnShare(x.PassedOn, x.Requests)),
		})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 50}, {head: "REQUESTS", right: true}, {head: "CACHE", right: true}, {head: "SHARED", right: true},
		{head: "PASSED ON", right: true}, {head: "OF ALL", right: true},
	}, reads)
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

// drawFollowed draws the resources that are followed and those that are refused, with what helps
// against a refusal below the table.
func drawFollowed(p *page, followed []serverreport.FollowedResource) {
	p.title("Followed")
	rows := make([][]cell, 0, len(followed))
	for _, f := range followed {
		state, objects, revision := cell{"✓ follows", good}, count(f.Objects), text(fmt.Sprint(f.Revision))
		switch {
		case f.Refused != "":
			state, objects, revision = cell{"! not followed: " + display.Clean(f.Refused), warning}, text("-"), text("-")
		case f.BrokenSeconds > 0:
			state = cell{fmt.Sprintf("✗ broken for %s: %s", display.Seconds(f.BrokenSeconds), display.Clean(f.Error)), critical}
		case f.Error != "":
			state = cell{"! " + display.Clean(f.Error), warning}
		}
		rows = append(rows, []cell{name(f.Name), state, objects, revision, text(heardText(f.SinceHeardSeconds))})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 50}, {head: "STATE", maxWidth: 70}, {head: "OBJECTS", right: true}, {head: "REVISION", right: true},
		{head: "HEARD", right: true},
	}, rows)
	for _, f := range followed {
		if f.Refused != "" {
			drawAdvice(p, f.Name, []string{f.Error})
		}
	}
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
	rows := make([][]cell, 0, len(names))
	for _, n := range names {
		rows = append(rows, []cell{name(n), count(counts[n])})
	}
	p.table([]column{{head: head}, {head: "REQUESTS", right: true}}, rows)
}

// total returns the sum of counts.
func total(counts map[string]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// countUnfollowed returns the numbers of resources whose feeds are broken, and of those that are refused.
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
