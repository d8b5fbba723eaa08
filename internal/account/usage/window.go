package usage

import (
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// windowMinutes is the length of the window that shapes and clients are reported for.
const windowMinutes = 10

// minuteCost is the cost of one minute's requests. It is smaller than serverreport.ListCost,
// because each account has ten.
type minuteCost struct {
	requests, passedOn, shared, failed    uint32
	cpu, seconds                          float32
	objects, scanned, scannedBytes, bytes uint64
}

// tenMinutes is the cost of the last ten minutes, the current one included. The zero
// value is empty.
type tenMinutes struct {
	// minutes is a ring: minute n is at n % windowMinutes.
	minutes [windowMinutes]minuteCost
	// newest is the newest minute, by minuteOf.
	newest int64
}

// minuteOf numbers minutes by Unix time.
func minuteOf(now time.Time) int64 { return now.Unix() / 60 }

// advance makes minute the newest minute, and empties it and the minutes that were skipped.
func (w *tenMinutes) advance(minute int64) {
	if minute-w.newest >= windowMinutes {
		*w = tenMinutes{newest: minute}
		return
	}
	for ; w.newest < minute; w.newest++ {
		w.minutes[(w.newest+1)%windowMinutes] = minuteCost{}
	}
}

// add adds one request. If the clock went back, the newest minute gets it.
func (w *tenMinutes) add(minute int64, c *serverreport.ListCost) {
	w.advance(minute)
	m := &w.minutes[w.newest%windowMinutes]
	m.requests++
	m.passedOn += uint32(c.PassedOn)
	m.shared += uint32(c.Shared)
	m.failed += uint32(c.Failed)
	m.cpu += float32(c.CPU)
	m.seconds += float32(c.Seconds)
	m.objects += c.Objects
	m.scanned += c.Scanned
	m.scannedBytes += c.ScannedBytes
	m.bytes += c.Bytes
}

// sum returns the cost of the ten minutes up to minute.
func (w *tenMinutes) sum(minute int64) serverreport.ListCost {
	w.advance(minute)
	var c serverreport.ListCost
	for i := range w.minutes {
		m := &w.minutes[i]
		c.Add(&serverreport.ListCost{
			Requests: uint64(m.requests), PassedOn: uint64(m.passedOn), Shared: uint64(m.shared), Failed: uint64(m.failed), CPU: float64(m.cpu), Seconds: float64(m.seconds),
			Objects: m.objects, Scanned: m.scanned, ScannedBytes: m.scannedBytes, Bytes: m.bytes,
		})
	}
	return c
}
