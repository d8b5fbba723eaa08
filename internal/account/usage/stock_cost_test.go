package usage_test

import (
	"testing"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
)

// TestStockCPUIsALowerBound compares the estimate with requests and events of the stock read
// path as bench has measured them once, of which the nearest must be near. Reports in
// docs/bench are made anew now and then, and have other figures then.
func TestStockCPUIsALowerBound(t *testing.T) {
	nearest := map[bool]float64{}
	for _, measured := range []struct {
		workload string
		// bytes are those of an answer, 0 for an event.
		bytes   uint64
		seconds float64
	}{
		{"pod-get", 4492, 492e-6},
		{"pods-of-node", 44_749, 844e-6},
		{"pods-by-label", 89_473, 9.46e-3},
		{"pods-limit", 2_230_652, 27.6e-3},
		{"pods-table", 1_431_660, 28.1e-3},
		{"nodes-json", 5_112_379, 41.7e-3},
		{"pods-protobuf", 31_169_533, 188e-3},
		{"pods-protobuf-gzip", 2_278_812, 195e-3},
		{"pods-json-gzip", 3_021_853, 367e-3},
		{"pods-json", 44_659_578, 385e-3},
		{"event over HTTP/1.1", 0, 26.1e-6},
		{"event over HTTP/2", 0, 37.4e-6},
		{"event in gzip", 0, 42.4e-6},
		{"event beside stalled clients", 0, 46.5e-6},
	} {
		isEvent := measured.bytes == 0
		work := serverreport.SparedWork{Requests: 1, RequestBytes: measured.bytes}
		if isEvent {
			work = serverreport.SparedWork{Events: 1}
		}
		ratio := usage.StockCPU(&work) / measured.seconds
		if nearest[isEvent] = max(nearest[isEvent], ratio); ratio > 1 {
			t.Errorf("%s is estimated at %g times of what was measured", measured.workload, ratio)
		}
	}
	for isEvent, ratio := range nearest {
		if ratio < 0.75 {
			t.Errorf("events %t: the nearest estimate is %g of what was measured", isEvent, ratio)
		}
	}
}

// TestAnswered counts what was not passed on, also of resources that are gone.
func TestAnswered(t *testing.T) {
	accounts, _ := newAccounts(usage.Config{})
	for range 3 {
		r := podList("alice")
		accounts.Observe(&r)
	}
	passedOn := podList("alice")
	passedOn.Shape.Path, passedOn.Shape.Reason = serverreport.PathPassedOn, "accept"
	accounts.Observe(&passedOn)
	answered := func(wantRequests, wantBytes uint64) {
		t.Helper()
		if requests, bytes := accounts.AnsweredTotals(); requests != wantRequests || bytes != wantBytes {
			t.Errorf("%d requests of %d bytes, want %d of %d", requests, bytes, wantRequests, wantBytes)
		}
	}
	answered(3, 3000)
	accounts.Forget(func(string) bool { return true })
	answered(3, 3000)
	again := podList("alice")
	accounts.Observe(&again)
	answered(4, 4000)
}
