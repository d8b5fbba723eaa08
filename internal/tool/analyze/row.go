package analyze

// row is a cell with its cost, and with the sums of what its client does with the resource.
type row struct {
	ShapeCost
	cell *cell
	use  *resourceUse
	// knownEncoding says that the encoding is known, and not assumed.
	knownEncoding bool
	period        float64 // of the log, in seconds
}

// resourceUse sums what one client does with one resource.
type resourceUse struct {
	watches, ended uint64
	gone           uint64 // watches that ended with 410
	// seconds is the sum of the durations of watches that ended.
	seconds float64
	// initialLists are the rows of LISTs that read a whole collection.
	initialLists []*row
}

// addCell adds the watches of a cell.
func (u *resourceUse) addCell(key *cellKey, v *cell) {
	if key.Verb == "watch" {
		u.watches += max(v.started, v.ended)
		u.ended += v.ended
		u.gone += v.gone
		u.seconds += v.watchedSeconds()
	}
}

// readers returns the number of instances that read the collection of a row: the fleet, or more if
// more watches of the resource were open at the same time. Only this shows that instances share an
// address.
func (u *resourceUse) readers(r *row) float64 {
	open := u.watches - min(u.watches, u.ended)
	return max(float64(r.Fleet), float64(open), u.seconds/r.period)
}

// perInstance returns the mean number of requests of an instance.
func (r *row) perInstance() float64 { return float64(r.Requests) / float64(r.Fleet) }

// isWatched reports whether the client watches the resource.
func (r *row) isWatched() bool { return r.use.watches > 0 }
