package mutation

import "time"

// On reports whether the server is broken in a way.
func On(m Mutation) bool { return chosen == m && isArmed() }

// period is the number of calls of which Sometimes chooses one. It has no factor in common
// with the numbers of events that come together.
const period = 7

// Sometimes is On for one call of several.
func Sometimes(m Mutation) bool { return On(m) && calls()%period == 0 }

// After is On from a number of calls on.
func After(m Mutation, calm uint64) bool { return On(m) && calls() > calm }

// Add moves a revision or a count.
func Add(m Mutation, to, n int64) int64 {
	if On(m) {
		return to + n
	}
	return to
}

// ShortHistory is the number of events that a log keeps with ExpiryUntold.
const ShortHistory = 20

// pause is how long Pause waits: longer than a write takes.
const pause = 5 * time.Millisecond

// Pause waits for a moment.
func Pause(m Mutation) {
	if On(m) {
		time.Sleep(pause)
	}
}

// RepeatLast repeats the last element now and then.
func RepeatLast[T any](m Mutation, all []T) []T {
	if len(all) > 0 && Sometimes(m) {
		return append(all, all[len(all)-1])
	}
	return all
}

// SwapLast exchanges the last two elements.
func SwapLast[T any](m Mutation, all []T) {
	if n := len(all); On(m) && n > 1 {
		all[n-1], all[n-2] = all[n-2], all[n-1]
	}
}
