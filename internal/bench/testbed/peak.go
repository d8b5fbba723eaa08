package testbed

import (
	"sync"
	"time"
)

// PeakSampleInterval is the time between readings of RSS during PeakDuring. They are
// needed where the kernel does not let the peak be reset.
const PeakSampleInterval = 20 * time.Millisecond

// PeakDuring runs work. It returns the RSS before work, and the highest RSS during
// work.
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
				// If the process has ended, the reading after work fails too.
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
