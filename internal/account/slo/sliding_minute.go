package slo

import "time"

// slidingMinute holds the values of the last minute in a ring of slots that are used again. The
// ring has the slots of a minute, and one that is being filled. So it covers up to one slot more
// than a minute. The zero value is empty. The owner's lock guards it.
//
// All calls for a slidingMinute have the same width: the width of its slots. Offsets are from
// Watches.startedAt.
type slidingMinute[T any] struct {
	slots []slot[T]
	// last is the slot that slotFor returned last. It is nil before the first call.
	last *slot[T]
	// lastBegin is the offset at which last begins.
	lastBegin time.Duration
}

type slot[T any] struct {
	// number is the offset of the slot in units of the width. It is -1 for a slot that was
	// never used.
	number int64
	value  T
}

const (
	// fineSlot is the width of resources' slots. Clients and subscriptions are many, so
	// their slots have the width coarseSlot.
	fineSlot   = 10 * time.Second
	coarseSlot = 20 * time.Second
)

// slotFor returns the slot of an offset. reset empties a slot that is used again. slotFor
// returns nil if a newer slot has taken the place of the offset's slot.
func (w *slidingMinute[T]) slotFor(offset, width time.Duration, reset func(*T)) *T {
	if w.last != nil && offset >= w.lastBegin && offset-w.lastBegin < width {
		return &w.last.value
	}
	n := int64(time.Minute/width) + 1
	if w.slots == nil {
		w.slots = make([]slot[T], n)
		for i := range w.slots {
			w.slots[i].number = -1
		}
	}
	number := int64(offset / width)
	s := &w.slots[number%n]
	if s.number > number {
		return nil
	}
	if s.number != number {
		reset(&s.value)
		s.number = number
	}
	w.last, w.lastBegin = s, time.Duration(number)*width
	return &s.value
}

// eachSlot calls use with the slots of the minute before an offset. The oldest slot may begin
// up to one width before that minute.
func (w *slidingMinute[T]) eachSlot(offset, width time.Duration, use func(*T)) {
	oldest := int64(offset/width) - int64(time.Minute/width)
	for i := range w.slots {
		if s := &w.slots[i]; s.number >= 0 && s.number >= oldest {
			use(&s.value)
		}
	}
}
