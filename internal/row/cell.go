package row

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A marker is an age that names a timestamp by its number: "2y1d" is the first
// one's, "3y17d" that of number 380. No other ages have years and days, whole
// years are left out, and half a day is added, so that markers are the same
// however long a renderer takes.
const (
	markersPerYear = 364
	firstYear      = 2
	maxMarkers     = 6 * markersPerYear
)

// markerAge grows with the number.
func markerAge(n int) time.Duration {
	years, days := firstYear+n/markersPerYear, 1+n%markersPerYear
	return time.Duration(years)*year + time.Duration(days)*24*time.Hour + 12*time.Hour
}

// nextMarker finds the first marker in text: text[start:end].
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

// part is a piece of a cell: text that stays, or an age.
type part struct {
	text string
	age  *age
}

// cell is the text of a cell that depends on the time.
type cell struct {
	parts []part
	// seen is the time that the row's own text was rendered at.
	seen time.Time
}

func (c cell) ages() int {
	n := 0
	for _, p := range c.parts {
		if p.age != nil {
			n++
		}
	}
	return n
}

func (c cell) at(now time.Time) string {
	var b strings.Builder
	for _, p := range c.parts {
		if p.age != nil {
			b.WriteString(p.age.at(now))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// search explains the cells that change with the time.
type search struct {
	*experiment
	// past and future are the cells with markers as ages since and until. The
	// latter are rendered when they are needed, which is seldom.
	past, future []any
}

// explain adds a cell to those with ages, or leaves it out if what changed is
// the text of a timestamp.
func (s *search) explain(i int, cells map[int]cell) error {
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
		if s.future, err = s.move(s.markedAhead); err != nil {
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

// fit reads a cell with markers and checks that it gives the row's own text at
// the time that this was rendered, at the start or the end of rendering.
func (s *search) fit(marked, own string, until bool) (cell, bool) {
	c := cell{parts: s.split(marked, until)}
	if c.ages() == 0 {
		return cell{}, false
	}
	for _, c.seen = range []time.Time{s.from, s.to} {
		if c.at(c.seen) == own {
			return c, true
		}
	}
	return cell{}, false
}

// split replaces markers by the ages of the timestamps that they name.
func (s *search) split(marked string, until bool) []part {
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

// isData reports whether a cell changed because it has timestamps as text.
func (s *search) isData(past, own string) bool {
	texts := make([]string, 0, 2*len(s.stamps))
	for i, stamp := range s.stamps {
		texts = append(texts, text(s.marked(i)), text(stamp.at))
	}
	return strings.NewReplacer(texts...).Replace(past) == own
}
