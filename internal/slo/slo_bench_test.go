package slo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/report"
	"github.com/millrace/millrace/internal/slo"
)

type place struct{}

func (place) Behind(uint64) (events, bytes int64, oldest time.Time) { return 0, 0, time.Time{} }
func (place) Waits() (window, write time.Time)                      { return time.Time{}, time.Time{} }
func (place) Locked(use func(returned uint64))                      { use(0) }
func (place) Held() (events int, bytes int64, oldest time.Time)     { return 0, 0, time.Time{} }

func open(x *slo.Watches, i, clients, selections int) *sender {
	return follow(x.Open(slo.WatchInfo{
		Resource: "pods", Client: report.NewClient(fmt.Sprint("node-", i%clients), "kubelet/v1"), Address: "192.0.2.1:4444",
		Protocol: "HTTP/2.0", Selection: fmt.Sprint("fields: spec.nodeName=node-", i%selections), Encoding: "json", Backlog: place{}, History: place{}, Transport: place{},
	}))
}

// BenchmarkDelivery is what measuring costs for one event to one of 1,000 watches when
// a write carries it for so many, which are one client's.
func BenchmarkDelivery(b *testing.B) {
	for _, streams := range []int{1, 50} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			x := slo.NewWatches(slo.Config{})
			watches := make([]*sender, 1000)
			for i := range watches {
				watches[i] = open(x, i/streams, len(watches), 1)
			}
			b.ReportAllocs()
			var arrival *slo.Arrival
			for i := 0; b.Loop(); i++ {
				if i%len(watches) == 0 {
					now := time.Now()
					arrival = &slo.Arrival{Entered: now, Cached: now}
				}
				if i%streams != 0 {
					continue
				}
				now := time.Now()
				write := slo.Write{Filled: now, Busy: now}
				for j := range streams {
					w := watches[(i+j)%len(watches)]
					w.Queue(arrival, 1, 400)
					w.Sent(&write, 400, nil)
				}
				write.Began = time.Now()
				write.Ended = time.Now()
				write.Written()
			}
		})
	}
}
