package serverreport

import "fmt"

// Bounds of what is usual for the reads of ten minutes at a replica.
const (
	// minFailedReads and maxFailedShare are for reads that failed. Programs that look for what they
	// may not read are usual.
	minFailedReads = 5
	maxFailedShare = 0.01
	// minPassedOnReads and maxPassedOnShare are for reads that the upstream answered.
	minPassedOnReads = 90
	maxPassedOnShare = 0.9
)

// FindCauses sets Causes from the other fields of the report.
func (r *ReplicaReport) FindCauses() {
	r.Causes = []Finding{}
	warn := func(cause Cause, resource, message, advice string) {
		r.Causes = append(r.Causes, Finding{Cause: cause, Severity: "warning", Resource: resource, Message: message, Advice: advice})
	}
	for _, f := range r.Followed {
		if f.Named && f.Refused != "" {
			warn(CauseNotFollowed, f.Name, "The resource is named in --follow, or the replica needs it, but it is not followed. Its reads are passed on.", f.Error)
		}
	}
	var all, worst ResourceReads
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
		warn(CauseFailedReads, worst.Resource, fmt.Sprintf("%d of %d GETs and LISTs of the last ten minutes were answered with 403, or with 500 and above; %d of these are of %s.",
			all.Failed, all.Requests, worst.Failed, worst.Resource),
			"See what the clients are told. If users with client certificates get 403, see what the report on the replica counts as refused.")
	}
	if exceeds(all.PassedOn+all.Shared, all.Requests, minPassedOnReads, maxPassedOnShare) {
		warn(CausePassedOnReads, "", fmt.Sprintf("The upstream answered %d of %d GETs and LISTs of the last ten minutes.",
			all.PassedOn+all.Shared, all.Requests), "The report on the replica has the resources and the reasons, docs/guides/replica-reference.md what helps.")
	}
}

// exceeds reports whether n is at least minimum, and more than maxShare of all.
func exceeds(n, all, minimum uint64, maxShare float64) bool {
	return n >= minimum && float64(n) > maxShare*float64(all)
}
