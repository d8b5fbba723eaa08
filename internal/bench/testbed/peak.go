package testbed

import (
	"sync"
	"time"
)

// PeakSampleInterval is how often RSS is read, for kernels that do not let the peak be
// reset.
const PeakSampleInterval = 20 * time.Millisecond

// PeakDuring runs work and returns RSS before it and the highest meanwhile.
func (m *Meter) PeakDuring(work func() error) (before, peak int64, err error) {
	reset := m.ResetPeak()
	start, err := m.Read()
	if err != nil {
		return 0, 0, err
	}
	peak = start.RSS
	ended := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(PeakSampleInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// That the process has gone is seen below.
				if now, err := m.Read(); err == nil {
					peak = max(peak, now.RSS)
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
		return start.RSS, peak, err
	}
	after, err := m.Read()
	if err == nil && reset {
		peak = max(peak, after.Peak)
	}
	return start.RSS, peak, err
}
