package slo

import "time"

// spanBands adds up stages by the length of the span. A band holds the spans within a
// factor of 2^(1/4): a quarter of a power of two. From the bands a report computes the
// stages of the slowest 1 % of the spans, without keeping single spans. The zero value is
// empty.
type spanBands struct {
	// first is the number of the first band of list.
	first int
	list  []band
}

const (
	bandBuckets = perDoubling / 4
	bandCount   = buckets/bandBuckets + 1
)

type band struct {
	count  uint32
	stages [spanStageCount]time.Duration
}

// band returns the band of that number. It extends the list if needed.
func (s *spanBands) band(number int) *band {
	if len(s.list) == 0 {
		s.first = number
	}
	if missing := s.first - number; missing > 0 {
		s.list = append(make([]band, missing, missing+len(s.list)), s.list...)
		s.first = number
	}
	for number-s.first >= len(s.list) {
		s.list = append(s.list, band{})
	}
	return &s.list[number-s.first]
}

// reset empties the bands. It keeps the list's memory unless that is large.
func (s *spanBands) reset() {
	if len(s.list) > bandCount/4 {
		s.list = nil
	}
	clear(s.list)
}
