package tablerow

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Render makes the row of an object. The row's Object is the one that clients get. Render
// reads the system's clock, must not alter the object, and must be safe for concurrent
// use.
type Render func(runtime.Object) (metav1.TableRow, error)

// Builder makes templates of the rows of one Render. It is safe for concurrent use.
type Builder struct {
	render Render
	types  typeInfos
}

// NewBuilder makes a builder of a renderer's rows.
func NewBuilder(render Render) *Builder { return &Builder{render: render} }

// Build makes the template of one object, which it neither alters nor keeps. It returns
// ErrVolatile for a row that must not be kept.
//
// An object without timestamps is rendered once, others up to four times: as they are, and
// then as a copy with other timestamps. If all timestamps are moved by one span, the cells
// that change depend on the time. If each timestamp gets a known age (a marker), a cell shows
// the timestamp that it depends on.
//
// If need be, this is repeated for times in the future. The markers keep the order of the
// timestamps, for a renderer may choose the latest.
func (b *Builder) Build(obj runtime.Object) (*Template, error) {
	from := time.Now()
	row, err := b.render(obj)
	if err != nil {
		return nil, fmt.Errorf("render %T: %w", obj, err)
	}
	e := experiment{render: b.render, row: &row, before: from, after: time.Now(), copy: obj.DeepCopyObject()}
	if e.stamps, err = b.types.findStamps(e.copy, from); err != nil {
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
	// row is the row of the original object. It was rendered between before and after.
	row           *metav1.TableRow
	before, after time.Time
	// copy is a copy of the object whose timestamps the experiment sets.
	copy runtime.Object
	// stamps are the timestamps of copy, newest first.
	stamps []stamp
}

// explain returns the cells with ages, by their index.
func (e *experiment) explain() (map[int]cell, error) {
	if len(e.stamps) == 0 {
		return nil, nil
	}
	if len(e.stamps) > maxMarkers {
		return nil, fmt.Errorf("%w: %d timestamps", ErrVolatile, len(e.stamps))
	}
	aged, err := e.agedCells()
	if err != nil || len(aged) == 0 {
		return nil, err
	}
	s := cellSearch{experiment: e}
	if s.past, err = e.renderMoved(e.markerTime); err != nil {
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

// agedCells returns the indices of the cells that change when all timestamps move into
// the past by one span. The span is so long that every age changes that ever does.
func (e *experiment) agedCells() ([]int, error) {
	span := int64(3 * year / time.Second)
	if ahead := e.stamps[0].at.Unix() - e.before.Unix(); ahead > 0 {
		span += ahead
	}
	cells, err := e.renderMoved(func(i int) time.Time {
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

// markerTime returns the time whose age is the marker of the i-th timestamp.
func (e *experiment) markerTime(i int) time.Time { return e.before.Add(-markerAge(i)).Round(0) }

// futureMarkerTime is markerTime for a time ahead. The markers are in reverse order, so that
// the newest timestamp stays the newest.
func (e *experiment) futureMarkerTime(i int) time.Time {
	return e.before.Add(markerAge(len(e.stamps) - 1 - i)).Round(0)
}

// renderMoved renders the cells of the copy with each timestamp set to the time that moved
// returns for it.
func (e *experiment) renderMoved(moved func(i int) time.Time) ([]any, error) {
	for i, s := range e.stamps {
		s.set(moved(i))
	}
	row, err := e.render(e.copy)
	if err != nil {
		return nil, fmt.Errorf("render with other timestamps: %w", err)
	}
	if len(row.Cells) != len(e.row.Cells) || !reflect.DeepEqual(row.Conditions, e.row.Conditions) {
		return nil, fmt.Errorf("%w: cells or conditions come and go", ErrVolatile)
	}
	return row.Cells, nil
}
