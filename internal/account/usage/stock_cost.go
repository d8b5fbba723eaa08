package usage

import "github.com/millrace/millrace/internal/account/serverreport"

// What a request, a byte of a body and an event cost a stock API server, in seconds of CPU.
// The request is as small as a GET of one object. The event goes to one watch over
// HTTP/1.1. The figures are somewhat below the lowest of docs/bench/list.json and
// docs/bench/watch-1.37.json. A test compares them with other workloads.
//
// They are low on purpose. A LIST that has to search, a compressed body, and an event over
// HTTP/2 cost a stock server more. Some of them cost many times as much.
const (
	stockRequestSeconds = 400e-6
	stockByteSeconds    = 5e-9
	stockEventSeconds   = 25e-6
)

// StockCPU estimates the CPU, in seconds, that a stock API server would have used at least
// for work that was done here.
func StockCPU(w *serverreport.SparedWork) float64 {
	return stockRequestSeconds*float64(w.Requests) + stockByteSeconds*float64(w.RequestBytes) + stockEventSeconds*float64(w.Events)
}

// AnsweredTotals returns how many requests since the start were not passed on themselves, and
// the bytes of their answers. It includes deleted resources, and requests with PathShared or
// PathFailed.
func (a *Accounts) AnsweredTotals() (requests, bytes uint64) {
	a.series.mu.Lock()
	defer a.series.mu.Unlock()
	requests, bytes = a.series.mu.gone.requests, a.series.mu.gone.bytes
	for key, s := range a.series.mu.series {
		if key.path != serverreport.PathPassedOn {
			requests += s.requests.Load()
			bytes += s.bytes.Load()
		}
	}
	return requests, bytes
}
