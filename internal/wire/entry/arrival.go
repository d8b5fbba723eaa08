package entry

import "time"

// Arrival has the times of events that came together: in one response of the feed's watch,
// for one resource. All these events point to the same Arrival, so an Arrival is also
// compared by its address.
type Arrival struct {
	// Entered is when the response came. Cached is when the events became visible in the
	// resource's log.
	Entered, Cached time.Time
}
