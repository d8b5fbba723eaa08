package slo_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/wire/entry"
)

// TestOneWriteOfManyWatches has each write carry several events for watches of several
// clients and selections.
func TestOneWriteOfManyWatches(t *testing.T) {
	const clients, selections, watches, writes, events, size = 3, 2, 10, 50, 4, 100
	x := newSet(slo.Objectives{})
	var all []*testWatch
	for i := range clients * selections * watches {
		all = append(all, follow(x.Open(slo.WatchInfo{
			Resource: "pods", Client: serverreport.NewClient(fmt.Sprint("user-", i%clients), "kubelet/v1"),
			Selection: fmt.Sprint("labels: n=", i/clients%selections), Backlog: new(fakeStream), Transport: new(fakeStream),
		})))
	}
	for range writes {
		var arrivals []*entry.Arrival
		for range events {
			x.clock.Step(ms)
			arrivals = append(arrivals, &entry.Arrival{Entered: x.clock.Now(), Cached: x.clock.Now()})
		}
		now := x.clock.Now()
		write := slo.Write{FillBegan: now, Began: now, Ended: now, BusySince: now}
		for _, w := range all {
			for _, a := range arrivals {
				w.Queue(a, 1, size)
			}
			w.Placed(&write, events*size, nil)
		}
		if r := x.SLO(); r.All.Events%(uint64(len(all))*events) != 0 {
			t.Fatalf("%d events are reported of a write that has not returned", r.All.Events)
		}
		write.Written()
	}
	r := x.SLO()
	const delivered = clients * selections * watches * writes * events
	if r.All.Events != delivered || r.All.Bytes != delivered*size || r.All.Spans.Count != delivered || math.Abs(r.All.Spans.Max-0.003) > 1e-6 {
		t.Errorf("the totals are %+v, want %d events", r.All, delivered)
	}
	if len(r.Clients) != clients || len(r.Subscriptions) != selections {
		t.Fatalf("clients %+v, subscriptions %+v", r.Clients, r.Subscriptions)
	}
	for _, c := range r.Clients {
		if c.Events != delivered/clients || c.Bytes != delivered*size/clients || c.Spans.Count != c.Events || c.Watches != selections*watches {
			t.Errorf("client %+v", c)
		}
	}
	for _, s := range r.Subscriptions {
		if s.Events != delivered/selections || s.Spans.Count != s.Events || s.Watches != clients*watches {
			t.Errorf("subscription %+v", s)
		}
	}
}

// TestInFlightEventsAreNotDelivered reads the report of a watch during a write, and after
// a write that failed.
func TestInFlightEventsAreNotDelivered(t *testing.T) {
	x := newSet(slo.Objectives{})
	a := &fakeStream{events: 3}
	w := x.open("pods", "a", a)
	look := func(when string, behind int64, events, bytes uint64) {
		t.Helper()
		if b := x.Watchers().Behind; len(b) != 1 || b[0].BehindEvents != behind || b[0].Events != events || b[0].Bytes != bytes {
			t.Errorf("%s: %+v", when, b)
		}
	}
	now := x.clock.Now()
	write := slo.Write{Number: 1, FillBegan: now, Began: now, Ended: now, BusySince: now}
	w.Queue(&entry.Arrival{Entered: now, Cached: now}, 1, 100)
	look("queued", 3, 0, 0)
	w.Placed(&write, 100, nil)
	look("in a write", 3, 0, 0)
	write.Written()
	a.returned++
	look("written", 2, 1, 100)

	failed := slo.Write{Number: 2, FillBegan: now, Began: now, Ended: now, BusySince: now}
	w.Queue(&entry.Arrival{Entered: now, Cached: now}, 1, 100)
	w.Placed(&failed, 100, nil)
	look("in a write that fails", 2, 1, 100)
	if r := x.SLO(); r.All.Events != 1 || r.All.Bytes != 100 {
		t.Errorf("the totals are %+v, want 1 event of 100 bytes", r.All)
	}
}

// TestWriteReturnsAfterClose closes the last watch of a client during a write. The write
// still counts.
func TestWriteReturnsAfterClose(t *testing.T) {
	x := newSet(slo.Objectives{})
	w := x.open("pods", "a", new(fakeStream))
	x.clock.Step(ms)
	now := x.clock.Now()
	write := slo.Write{FillBegan: now, Began: now, Ended: now.Add(time.Second), BusySince: now}
	w.Queue(&entry.Arrival{Entered: now, Cached: now}, 2, 100)
	w.Placed(&write, 100, nil)
	x.deliver(w, stageTimes{}, 50)
	w.watch.Close()
	write.Written()
	r := x.SLO()
	if r.All.Events != 3 || r.All.Spans.Count != 3 || len(r.Clients) != 1 || r.Clients[0].Events != 3 || r.Clients[0].Bytes != 150 || r.Clients[0].Spans.Count != 3 {
		t.Errorf("the totals are %+v, the clients %+v", r.All, r.Clients)
	}
}
