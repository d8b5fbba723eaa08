package usage

import (
	"time"

	"github.com/millrace/millrace/internal/report"
)

// windowMinutes is how far back shapes and clients are told of.
const windowMinutes = 10

// minuteCost is what requests of one minute cost. It is ListCost in less memory,
// for there are ten in each account.
type minuteCost struct {
	requests                              uint32
	cpu, seconds                          float32
	objects, scanned, scannedBytes, bytes uint64
}

// tenMinutes is the cost of the last ten minutes, the current one included.
type tenMinutes struct {
	minutes [windowMinutes]minuteCost
	// at is the number of the newest minute.
	at int64
}

func minuteOf(now time.Time) int64 { return now.Unix() / 60 }

// advance forgets what is older than the window.
func (w *tenMinutes) advance(minute int64) {
	if minute-w.at >= windowMinutes {
		*w = tenMinutes{at: minute}
		return
	}
	for ; w.at < minute; w.at++ {
		w.minutes[(w.at+1)%windowMinutes] = minuteCost{}
	}
}

// add adds one request. A clock that goes back adds to the newest minute.
func (w *tenMinutes) add(minute int64, c *report.ListCost) {
	w.advance(minute)
	m := &w.minutes[w.at%windowMinutes]
	m.requests++
	m.cpu += float32(c.CPU)
	m.seconds += float32(c.Seconds)
	m.objects += c.Objects
	m.scanned += c.Scanned
	m.scannedBytes += c.ScannedBytes
	m.bytes += c.Bytes
}

// sum is the cost of the whole window.
func (w *tenMinutes) sum(minute int64) report.ListCost {
	w.advance(minute)
	var c report.ListCost
	for i := range w.minutes {
		m := &w.minutes[i]
		c.Add(&report.ListCost{
			Requests: uint64(m.requests), CPU: float64(m.cpu), Seconds: float64(m.seconds),
			Objects: m.objects, Scanned: m.scanned, ScannedBytes: m.scannedBytes, Bytes: m.bytes,
		})
	}
	return c
}
