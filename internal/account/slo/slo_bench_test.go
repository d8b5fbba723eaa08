package slo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/wire/entry"
)

// idleStream is the backlog, history and transport of a watch that never lags.
type idleStream struct{}

func (idleStream) Behind(uint64) (events, bytes int64, oldest time.Time) { return 0, 0, time.Time{} }
func (idleStream) Waits() (window, write time.Time)                      { return time.Time{}, time.Time{} }
func (idleStream) WithLock(use func(returned uint64))                    { use(0) }
func (idleStream) Size() (events int, bytes int64, oldest time.Time)     { return 0, 0, time.Time{} }

// openWatch opens the watch i.
func openWatch(x *slo.Watches, i, clients, selections int) *testWatch {
	return follow(x.Open(slo.WatchInfo{
		Resource: "pods", Client: serverreport.NewClient(fmt.Sprint("node-", i%clients), "kubelet/v1"), Address: "192.0.2.1:4444",
		Protocol: "HTTP/2.0", Selection: fmt.Sprint("fields: spec.nodeName=node-", i%selections), Encoding: "json", Backlog: idleStream{}, History: idleStream{}, Transport: idleStream{},
	}))
}

// BenchmarkDelivery measures the accounts of one event for one of 1,000 watches. Each
// write carries the event for the given number of streams, all of one client.
func BenchmarkDelivery(b *testing.B) {
	for _, streams := range []int{1, 50} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			x := slo.NewWatches(slo.Config{})
			watches := make([]*testWatch, 1000)
			for i := range watches {
				watches[i] = openWatch(x, i/streams, len(watches), 1)
			}
			b.ReportAllocs()
			var arrival *entry.Arrival
			for i := 0; b.Loop(); i++ {
				if i%len(watches) == 0 {
					now := time.Now()
					arrival = &entry.Arrival{Entered: now, Cached: now}
				}
				if i%streams != 0 {
					continue
				}
				now := time.Now()
				write := slo.Write{FillBegan: now, BusySince: now}
				for j := range streams {
					w := watches[(i+j)%len(watches)]
					w.Queue(arrival, 1, 400)
					w.Placed(&write, 400, nil)
				}
				write.Began = time.Now()
				write.Ended = time.Now()
				write.Written()
			}
		})
	}
}
