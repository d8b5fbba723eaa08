package slo_test

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
)

// TestPassOn counts watches that are passed on by client, resource and reason, while they are
// open.
func TestPassOn(t *testing.T) {
	set := newSet(slo.Objectives{})
	kubelet, other := serverreport.Client{User: "u", UserAgent: "kubelet"}, serverreport.Client{User: "v", UserAgent: "kubelet"}
	want := func(rows ...serverreport.PassedOnWatches) {
		t.Helper()
		total := 0
		for _, row := range rows {
			total += row.Watches
		}
		if r := set.Watchers(); r.PassedOn != total || !slices.Equal(r.PassedOnBy, rows) || r.Watches != 0 {
			t.Errorf("%d watches and %d passed on, by %v, want %v", r.Watches, r.PassedOn, r.PassedOnBy, rows)
		}
	}
	want()
	first := set.PassOn(kubelet, "pods", "accept")
	second := set.PassOn(kubelet, "pods", "loading")
	third := set.PassOn(other, "pods", "accept")
	want(serverreport.PassedOnWatches{Client: kubelet, Resource: "pods", Reason: "accept", Watches: 1},
		serverreport.PassedOnWatches{Client: kubelet, Resource: "pods", Reason: "loading", Watches: 1},
		serverreport.PassedOnWatches{Client: other, Resource: "pods", Reason: "accept", Watches: 1})
	fourth := set.PassOn(other, "pods", "accept")
	second()
	want(serverreport.PassedOnWatches{Client: other, Resource: "pods", Reason: "accept", Watches: 2},
		serverreport.PassedOnWatches{Client: kubelet, Resource: "pods", Reason: "accept", Watches: 1})
	for _, end := range []func(){first, third, fourth} {
		end()
	}
	want()
	var none *slo.Watches
	none.PassOn(kubelet, "pods", "accept")()
}
