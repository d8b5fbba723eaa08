package serverreport_test

import (
	"testing"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// TestFindCauses has reads and resources of a replica, some of which are wrong.
func TestFindCauses(t *testing.T) {
	t.Parallel()
	const usual = serverreport.Cause("")
	for _, c := range []struct {
		reads    serverreport.ResourceReads
		followed serverreport.FollowedResource
		want     serverreport.Cause
	}{
		{serverreport.ResourceReads{Requests: 1000, PassedOn: 500, Failed: 4}, serverreport.FollowedResource{}, usual},
		{serverreport.ResourceReads{Requests: 2000, Failed: 20}, serverreport.FollowedResource{}, usual},
		{serverreport.ResourceReads{Requests: 20, PassedOn: 20}, serverreport.FollowedResource{}, usual},
		{serverreport.ResourceReads{}, serverreport.FollowedResource{Refused: "refused"}, usual},
		{serverreport.ResourceReads{}, serverreport.FollowedResource{Named: true}, usual},
		{serverreport.ResourceReads{Requests: 1000, Failed: 20}, serverreport.FollowedResource{}, serverreport.CauseFailedReads},
		{serverreport.ResourceReads{Requests: 1000, PassedOn: 900, Shared: 90}, serverreport.FollowedResource{}, serverreport.CausePassedOnReads},
		{serverreport.ResourceReads{}, serverreport.FollowedResource{Named: true, Refused: "refused"}, serverreport.CauseNotFollowed},
	} {
		r := serverreport.ReplicaReport{Reads: []serverreport.ResourceReads{c.reads}, Followed: []serverreport.FollowedResource{c.followed}}
		r.FindCauses()
		got := usual
		if len(r.Causes) > 0 {
			got = r.Causes[0].Cause
		}
		if got != c.want || len(r.Causes) > 1 {
			t.Errorf("%+v and %+v: %+v, want %q", c.reads, c.followed, r.Causes, c.want)
		}
	}
}
