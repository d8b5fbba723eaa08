package top

import (
	"fmt"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// Bounds of what is usual for the reads of ten minutes at a replica.
const (
	// minFailedReads and maxFailedShare are for reads that failed. Programs that look for what they
	// may not read are usual.
	minFailedReads = 5
	maxFailedShare = 0.01
	// minReads and maxPassedOnShare are for reads that the replica passed on.
	minReads         = 100
	maxPassedOnShare = 0.9
)

// readFindings returns what is wrong with the reads of a replica. The server's own findings are
// about watch events. r is nil for another server.
func readFindings(r *serverreport.ReplicaReport) (found []serverreport.Finding) {
	if r == nil {
		return nil
	}
	warn := func(cause serverreport.Cause, resource, message, advice string) {
		found = append(found, serverreport.Finding{Cause: cause, Severity: "warning", Resource: resource, Message: message, Advice: advice})
	}
	for _, f := range r.Followed {
		if f.Named && f.Refused != "" {
			warn("not followed", f.Name, "The resource is named in --follow, and its reads are passed on.", f.Error)
		}
	}
	var all, worst serverreport.ResourceReads
	for _, x := range r.Reads {
		all.Requests += x.Requests
		all.Shared += x.Shared
		all.PassedOn += x.PassedOn
		all.Failed += x.Failed
		if x.Failed > worst.Failed {
			worst = x
		}
	}
	if exceeds(all.Failed, all.Requests, minFailedReads, maxFailedShare) {
		warn("reads fail", worst.Resource, fmt.Sprintf("%s of %s GETs and LISTs of the last ten minutes were answered with 403, or with 500 and above; %s of these are of %s.",
			display.Count(all.Failed), display.Count(all.Requests), display.Count(worst.Failed), display.Clean(worst.Resource)),
			"See what the clients are told. 403 for users with client certificates: the view replica counts them under Refused here.")
	}
	if exceeds(all.PassedOn+all.Shared, all.Requests, minReads*maxPassedOnShare, maxPassedOnShare) {
		warn("reads are passed on", "", fmt.Sprintf("The upstream answered %s of %s GETs and LISTs of the last ten minutes.",
			display.Count(all.PassedOn+all.Shared), display.Count(all.Requests)), "The view replica has the resources and the reasons, docs/guides/replica-reference.md what helps.")
	}
	return found
}

// exceeds reports whether n is a minimum at least, and more than a share of all.
func exceeds(n, all uint64, minimum, share float64) bool {
	return float64(n) >= minimum && float64(n) > share*float64(all)
}
