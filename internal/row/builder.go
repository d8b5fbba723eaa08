package row

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Render makes the row of an object, with the row's Object as it goes out. It
// reads the system's clock, must not alter the object, and must be safe for
// concurrent use.
type Render func(runtime.Object) (metav1.TableRow, error)

// Builder makes templates of what one Render gives. It is safe for concurrent use.
type Builder struct {
	render Render
	kinds  kinds
}

// NewBuilder makes a builder.
func NewBuilder(render Render) *Builder { return &Builder{render: render} }

// Build makes the template of one object, which it does not alter or keep. It
// returns ErrVolatile for a row that must not be kept.
//
// An object without timestamps is rendered once, others up to four times: as
// they are, and copies with all timestamps moved by one span, which tells the
// cells that depend on the time, and with a known age for each timestamp, which
// tells its name. Those ages keep the order of the timestamps, for a renderer
// may choose the latest.
func (b *Builder) Build(obj runtime.Object) (*Template, error) {
	from := time.Now()
	row, err := b.render(obj)
	if err != nil {
		return nil, fmt.Errorf("render %T: %w", obj, err)
	}
	e := experiment{render: b.render, row: &row, from: from, to: time.Now(), copied: obj.DeepCopyObject()}
	if e.stamps, err = b.kinds.find(e.copied, from); err != nil {
		return nil, err
	}
	cells, err := e.explain()
	if err != nil {
		return nil, fmt.Errorf("explain row of %T: %w", obj, err)
	}
	return newTemplate(&row, cells)
}

// experiment is the search for the ages in one row.
type experiment struct {
	render Render
	// row was rendered of the original, between the two times.
	row      *metav1.TableRow
	from, to time.Time
	// copied is a copy of the object, and stamps are its timestamps.
	copied runtime.Object
	stamps []stamp
}

// explain returns the cells with ages by their index.
func (e *experiment) explain() (map[int]cell, error) {
	if len(e.stamps) == 0 {
		return nil, nil
	}
	if len(e.stamps) > maxMarkers {
		return nil, fmt.Errorf("%w: %d timestamps", ErrVolatile, len(e.stamps))
	}
	aged, err := e.aged()
	if err != nil || len(aged) == 0 {
		return nil, err
	}
	s := search{experiment: e}
	if s.past, err = e.move(e.marked); err != nil {
		return nil, err
	}
	cells := make(map[int]cell, len(aged))
	for _, i := range aged {
		if err := s.explain(i, cells); err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// aged are the cells that change when all timestamps move into the past by one
// span. It is so long that no age stays the same, unless it does forever.
func (e *experiment) aged() ([]int, error) {
	span := int64(3 * year / time.Second)
	if ahead := e.stamps[0].at.Unix() - e.from.Unix(); ahead > 0 {
		span += ahead
	}
	cells, err := e.move(func(i int) time.Time {
		at := e.stamps[i].at
		return time.Unix(at.Unix()-span, int64(at.Nanosecond())).In(at.Location())
	})
	if err != nil {
		return nil, err
	}
	var changed []int
	for i, c := range cells {
		if !reflect.DeepEqual(c, e.row.Cells[i]) {
			changed = append(changed, i)
		}
	}
	return changed, nil
}

// marked is where a timestamp is when its age since then is its marker.
func (e *experiment) marked(i int) time.Time { return e.from.Add(-markerAge(i)).Round(0) }

// markedAhead is the same for the time until then.
func (e *experiment) markedAhead(i int) time.Time {
	return e.from.Add(markerAge(len(e.stamps) - 1 - i)).Round(0)
}

// move renders the copy's cells with other timestamps.
func (e *experiment) move(to func(i int) time.Time) ([]any, error) {
	for i, s := range e.stamps {
		s.set(to(i))
	}
	row, err := e.render(e.copied)
	if err != nil {
		return nil, fmt.Errorf("render with other timestamps: %w", err)
	}
	if len(row.Cells) != len(e.row.Cells) || !reflect.DeepEqual(row.Conditions, e.row.Conditions) {
		return nil, fmt.Errorf("%w: cells or conditions come and go", ErrVolatile)
	}
	return row.Cells, nil
}
