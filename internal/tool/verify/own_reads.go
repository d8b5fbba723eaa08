package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/account/serverreport"
)

// OwnReads counts the GETs and LISTs of one resource that a replica had in the last ten minutes, by
// the replica's own report. Watches are not counted.
type OwnReads struct {
	Resource string `json:"resource"`
	Reads    uint64 `json:"reads"`
	// Own is how many of them the replica answered itself. Its upstream answered the other reads.
	Own uint64 `json:"own"`
}

// countOwnReads asks each server how many of the run's reads it answered itself. It has to be
// called before the definition is removed, because a replica then forgets its reads.
func (r *run) countOwnReads(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptGrace)
	defer cancel()
	for _, s := range r.servers {
		s.ownReads, s.ownReadsRefused = s.askOwnReads(ctx, r.fixture)
	}
}

// askOwnReads returns the figures of a replica for each resource of the fixture, and nil for a
// server that is not a replica. refused says that the user may not ask.
func (s *server) askOwnReads(ctx context.Context, f *fixture) (own []OwnReads, refused bool) {
	got, err := s.exchange(ctx, http.MethodGet, dashboard.Prefix+"replica", nil, nil, nil)
	if err != nil || got.status != http.StatusOK {
		return nil, got.status == http.StatusForbidden
	}
	var report serverreport.ReplicaReport
	if json.Unmarshal(got.body, &report) != nil || report.Upstream == "" {
		return nil, false
	}
	for i := range f.resources {
		row := OwnReads{Resource: f.resources[i].reportName()}
		for _, x := range report.Reads {
			if x.Resource == row.Resource {
				row.Reads, row.Own = x.Requests, x.Requests-x.PassedOn-x.Shared
			}
		}
		own = append(own, row)
	}
	return own, false
}

// reportName returns the resource's name in reports, as in "leases.coordination.k8s.io".
func (r *resource) reportName() string {
	group, _, _ := strings.Cut(r.version, "/")
	return r.name + "." + group
}

// minReads is the number of reads that a replica has to pass on before that means something. One
// that has just started again may have had a few.
const minReads = 20

// passedAllOn reports whether the server is a replica that had minReads or more and answered none
// itself.
func (s *ServerReport) passedAllOn() bool {
	var reads, own uint64
	for _, o := range s.OwnReads {
		reads += o.Reads
		own += o.Own
	}
	return reads >= minReads && own == 0
}

// ownReadsText returns what the server answered itself, "" if it is not known to be a replica.
func (s *ServerReport) ownReadsText() string {
	if len(s.OwnReads) == 0 {
		return ""
	}
	var parts []string
	mark := "✓"
	for _, o := range s.OwnReads {
		parts = append(parts, fmt.Sprintf("%d of %d reads of %s", o.Own, o.Reads, o.Resource))
		if o.Own == 0 {
			mark = "!"
		}
	}
	return fmt.Sprintf("%s %s is a replica, and answered itself %s; its upstream answered the other reads", mark, s.URL,
		strings.Join(parts, ", "))
}

// notProven is what a run says about a replica that answered nothing itself.
const notProven = "this run proves its upstream and nothing about the replica: " +
	"allow the replica's own user to list and watch these resources, and run again after five minutes"

// OwnReadsLines returns a line for each server that is a replica: what it answered itself, and
// what the run does not prove therefore.
func (r *Report) OwnReadsLines() (lines []string) {
	for i := range r.Servers {
		s := &r.Servers[i]
		text := s.ownReadsText()
		if s.passedAllOn() {
			text += "; " + notProven
		}
		if text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

// passedOnErr returns an error if a replica answered no read itself: the run says nothing about it.
func (r *Report) passedOnErr() error {
	for i := range r.Servers {
		if s := &r.Servers[i]; s.passedAllOn() {
			return fmt.Errorf("%s is a replica, and answered no read itself: %s", s.URL, notProven)
		}
	}
	return nil
}
