package bench

import (
	"sync"
	"time"
)

// peakSample is how often RSS is read, for kernels that do not let the peak be
// reset.
const peakSample = 20 * time.Millisecond

// peakDuring runs work and returns RSS before it and the highest meanwhile.
func (m *meter) peakDuring(work func() error) (before, peak int64, err error) {
	reset := m.resetPeak()
	start, err := m.read()
	if err != nil {
		return 0, 0, err
	}
	peak = start.rss
	ended := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(peakSample)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// That the process has gone is seen below.
				if now, err := m.read(); err == nil {
					peak = max(peak, now.rss)
				}
			case <-ended:
				return
			}
		}
	})
	err = work()
	close(ended)
	sampling.Wait()
	if err != nil {
		return start.rss, peak, err
	}
	after, err := m.read()
	if err == nil && reset {
		peak = max(peak, after.peak)
	}
	return start.rss, peak, err
}
