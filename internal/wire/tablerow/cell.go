package tablerow

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A marker is an age that stands for the number of a timestamp: "2y1d" for the first one,
// "3y17d" for number 380. All timestamps of the copy are at their markers, and fit verifies
// the outcome with the true ones. Whole years are left out, because they are printed
// without days. Half a day is added, so that a slow renderer prints the same marker.
const (
	markersPerYear = 364
	firstYear      = 2
	maxMarkers     = 6 * markersPerYear
)

// markerAge returns the age that is the marker of number n. It grows with n.
func markerAge(n int) time.Duration {
	years, days := firstYear+n/markersPerYear, 1+n%markersPerYear
	return time.Duration(years)*year + time.Duration(days)*24*time.Hour + 12*time.Hour
}

// nextMarker finds the first marker in text, text[start:end], and its number n.
func nextMarker(text string) (start, end, n int, ok bool) {
	for y := 1; y < len(text); y++ {
		if text[y] != 'y' || text[y-1] < '0' || text[y-1] > '9' {
			continue
		}
		length := strings.IndexByte(text[y+1:], 'd')
		if length < 1 {
			continue
		}
		days, err := strconv.Atoi(text[y+1 : y+1+length])
		if err != nil || days < 1 || days > markersPerYear {
			continue
		}
		years := int(text[y-1]-'0') - firstYear
		return y - 1, y + 1 + length + 1, years*markersPerYear + days - 1, true
	}
	return 0, 0, 0, false
}

// part is a piece of a cell: an age, or constant text if age is nil.
type part struct {
	text string
	age  *age
}

// cell is a cell whose text depends on the time.
type cell struct {
	parts []part
	// renderedAt is a time at which the cell has the text of the original row.
	renderedAt time.Time
}

// countAges returns the number of ages in the cell.
func (c cell) countAges() int {
	n := 0
	for _, p := range c.parts {
		if p.age != nil {
			n++
		}
	}
	return n
}

// textAt returns the cell's text at now.
func (c cell) textAt(now time.Time) string {
	var b strings.Builder
	for _, p := range c.parts {
		if p.age != nil {
			b.WriteString(p.age.textAt(now))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// cellSearch explains the cells that change with the time.
type cellSearch struct {
	*experiment
	// past has the cells rendered with each timestamp its marker ago, and future with each
	// its marker ahead. future is nil until it is needed, which is seldom.
	past, future []any
}

// explain adds the i-th cell to the cells with ages. It leaves the cell out if it merely
// prints a timestamp, which does not depend on the time.
func (s *cellSearch) explain(i int, cells map[int]cell) error {
	own, isText := s.row.Cells[i].(string)
	past, isPastText := s.past[i].(string)
	if !isText || !isPastText {
		return fmt.Errorf("%w: cell %d is no text", ErrVolatile, i)
	}
	if c, ok := s.fit(past, own, false); ok {
		cells[i] = c
		return nil
	}
	if s.isData(past, own) {
		return nil
	}
	if s.future == nil {
		var err error
		if s.future, err = s.renderMoved(s.futureMarkerTime); err != nil {
			return err
		}
	}
	future, _ := s.future[i].(string)
	if c, ok := s.fit(future, own, true); ok {
		cells[i] = c
		return nil
	}
	return fmt.Errorf("%w: cell %d", ErrVolatile, i)
}

// fit makes a cell of marked text. It checks that the cell has the original row's own text
// at the start or at the end of that rendering. until says that the markers are times
// ahead.
func (s *cellSearch) fit(marked, own string, until bool) (cell, bool) {
	c := cell{parts: s.split(marked, until)}
	if c.countAges() == 0 {
		return cell{}, false
	}
	for _, c.renderedAt = range []time.Time{s.before, s.after} {
		if c.textAt(c.renderedAt) == own {
			return c, true
		}
	}
	return cell{}, false
}

// split cuts marked text into parts: each marker becomes an age of its timestamp.
func (s *cellSearch) split(marked string, until bool) []part {
	var parts []part
	for {
		start, end, n, ok := nextMarker(marked)
		if !ok {
			return append(parts, part{text: marked})
		}
		if until {
			n = len(s.stamps) - 1 - n
		}
		if n < 0 || n >= len(s.stamps) {
			parts = append(parts, part{text: marked[:end]})
		} else {
			parts = append(parts, part{text: marked[:start]}, part{age: &age{of: s.stamps[n].at, until: until}})
		}
		marked = marked[end:]
	}
}

// isData reports whether a cell changed only because it prints timestamps.
func (s *cellSearch) isData(past, own string) bool {
	texts := make([]string, 0, 2*len(s.stamps))
	for i, stamp := range s.stamps {
		texts = append(texts, formatStamp(s.markerTime(i)), formatStamp(stamp.at))
	}
	return strings.NewReplacer(texts...).Replace(past) == own
}
