package usage_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/usage"
)

// requestsOf returns requests of different clients in different shapes.
func requestsOf(clients, shapes int) []usage.Request {
	all := make([]usage.Request, max(clients, shapes))
	for i := range all {
		r := podList(fmt.Sprintf("system:serviceaccount:namespace-%d:agent", i%clients))
		r.Shape.Resource = fmt.Sprintf("things%d.example.org", i%shapes)
		r.Address = fmt.Sprintf("10.0.%d.%d:4711", i/250%250, i%250)
		all[i] = r
	}
	return all
}

// BenchmarkObserve adds requests of known clients in known shapes. In the flood each
// request has a new client and a new shape, and takes another account's slot.
func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct {
		name            string
		clients, shapes int
	}{{"one", 1, 1}, {"known", 1000, 2000}, {"flood", 200_000, 200_000}} {
		requests := requestsOf(c.clients, c.shapes)
		for _, parallel := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/parallel=%v", c.name, parallel), func(b *testing.B) {
				accounts := usage.NewAccounts(usage.Config{})
				b.ReportAllocs()
				if !parallel {
					for i := 0; b.Loop(); i++ {
						accounts.Observe(&requests[i%len(requests)])
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						r := requests[i*7919%len(requests)]
						accounts.Observe(&r)
					}
				})
			})
		}
	}
}

func BenchmarkRelist(b *testing.B) {
	accounts := usage.NewAccounts(usage.Config{Logger: slog.New(slog.DiscardHandler)})
	all := make([]*usage.Relist, 5000)
	for i := range all {
		all[i] = relist(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		accounts.Relist(all[i%len(all)])
	}
}

func BenchmarkReport(b *testing.B) {
	accounts := usage.NewAccounts(usage.Config{})
	for range 10 {
		for _, r := range requestsOf(1200, 2400) {
			accounts.Observe(&r)
		}
	}
	for b.Loop() {
		accounts.Report()
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestListMemory bounds the memory of accounts of 1,000 clients and 2,000 shapes, also
// after a flood of names that are too long.
func TestListMemory(t *testing.T) {
	requests := requestsOf(1000, 2000)
	before := heap()
	accounts, clock := newAccounts(usage.Config{})
	fill := func() {
		for i := range requests {
			r := &requests[i]
			accounts.Observe(r)
			accounts.Relist(&usage.Relist{Client: r.Client, Address: r.Address, Resource: r.Shape.Resource, Full: true})
		}
	}
	fill()
	small := heap() - before
	for range 20 {
		fill()
		clock.Step(time.Minute)
	}
	if size := heap() - before; size > 8<<20 || size > small*3/2 {
		t.Errorf("%d KiB, %d at first", size>>10, small>>10)
	}
	if r := accounts.Report(); len(r.Shapes) != 50 {
		t.Errorf("%d shapes", len(r.Shapes))
	}
	long := string(make([]byte, 3000))
	for i := range 20_000 {
		r := podList(fmt.Sprint(i, long))
		r.Client.UserAgent = fmt.Sprint("a", i)
		r.Shape.Selectors, r.Shape.Resource = fmt.Sprint(i, long), fmt.Sprint(i, long)
		accounts.Observe(&r)
		accounts.Relist(&usage.Relist{Client: r.Client, Address: fmt.Sprint(i), Resource: r.Shape.Resource, Full: true})
		if i%1000 == 0 {
			clock.Step(10 * time.Second)
		}
	}
	if size := heap() - before; size > 16<<20 {
		t.Errorf("%d KiB after a flood", size>>10)
	}
	t.Logf("%d KiB, %d KiB after a flood", small>>10, (heap()-before)>>10)
	runtime.KeepAlive(accounts)
}
