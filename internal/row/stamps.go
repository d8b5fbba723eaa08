package row

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stamp is an instant that one object names in one or more places.
type stamp struct {
	at     time.Time
	places []place
}

// place is where a timestamp stands. set writes another one there.
type place struct {
	at  time.Time
	set func(time.Time)
}

func (s stamp) set(t time.Time) {
	for _, p := range s.places {
		p.set(t)
	}
}

const (
	year = 365 * 24 * time.Hour
	// oldest is the first year whose timestamps can be moved into the past and
	// still be written.
	oldest = 1000
	// farYears ahead, no age changes for years: it is beyond what a
	// time.Duration holds.
	farYears = 300
)

// find lists an object's timestamps, newest first. Those that are zero, too far
// ahead to age, or of managed fields are left out.
func (k *kinds) find(obj runtime.Object, now time.Time) ([]stamp, error) {
	f := finder{kinds: k}
	f.walk(reflect.ValueOf(obj), nil)
	places := slices.DeleteFunc(f.places, func(p place) bool {
		return p.at.IsZero() || p.at.After(now.AddDate(farYears, 0, 0))
	})
	slices.SortStableFunc(places, func(a, b place) int { return b.at.Compare(a.at) })
	var stamps []stamp
	for _, p := range places {
		if p.at.Year() < oldest {
			return nil, fmt.Errorf("%w: a timestamp of the year %d", ErrVolatile, p.at.Year())
		}
		if n := len(stamps); n > 0 && stamps[n-1].at.Equal(p.at) {
			stamps[n-1].places = append(stamps[n-1].places, p)
			continue
		}
		stamps = append(stamps, stamp{at: p.at, places: []place{p}})
	}
	return stamps, nil
}

// finder collects the places of timestamps in a tree of values.
type finder struct {
	kinds  *kinds
	places []place
}

// walk looks below a value. written is called after a timestamp there has been
// replaced; it may be nil.
func (f *finder) walk(v reflect.Value, written func()) {
	kind := f.kinds.of(v.Type())
	if !kind.holds {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.walk(v.Elem(), written)
		}
	case reflect.Interface:
		f.walkInterface(v, written)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			f.walk(v.Index(i), written)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			key := entries.Key()
			f.walkCopy(entries.Value(), func(c reflect.Value) { v.SetMapIndex(key, c) }, written)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			f.add(*at, func(t time.Time) { *at = t }, written)
		}
		for _, field := range kind.fields {
			f.walk(v.Field(field), written)
		}
	}
}

func (f *finder) walkInterface(v reflect.Value, written func()) {
	value := v.Elem()
	switch value.Kind() {
	case reflect.Invalid:
	case reflect.String:
		if at, err := time.Parse(time.RFC3339, value.String()); err == nil {
			f.add(at, func(t time.Time) { v.Set(reflect.ValueOf(text(t)).Convert(value.Type())) }, written)
		}
	case reflect.Struct, reflect.Array:
		f.walkCopy(value, v.Set, written)
	default:
		f.walk(value, written)
	}
}

// walkCopy looks below a value that cannot be written in place. put replaces it.
func (f *finder) walkCopy(v reflect.Value, put func(reflect.Value), written func()) {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	f.walk(c, func() {
		put(c)
		if written != nil {
			written()
		}
	})
}

func (f *finder) add(at time.Time, set func(time.Time), written func()) {
	f.places = append(f.places, place{at: at.Round(0), set: func(t time.Time) {
		set(t)
		if written != nil {
			written()
		}
	}})
}

// text is a timestamp as it is written where it is data.
func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// kinds remembers which types may hold timestamps, so that a walk passes over
// most of an object. The zero value is ready; it is safe for concurrent use.
type kinds struct{ byType sync.Map }

// kind is what is known of a type.
type kind struct {
	holds bool
	// fields are the indices of a struct's fields that may hold timestamps.
	fields []int
}

func (k *kinds) of(t reflect.Type) kind {
	if known, ok := k.byType.Load(t); ok {
		return known.(kind)
	}
	found := inspect(t, map[reflect.Type]bool{})
	k.byType.Store(t, found)
	return found
}

// inspect reads a type. One that contains itself is taken to hold timestamps.
func inspect(t reflect.Type, above map[reflect.Type]bool) kind {
	if above[t] {
		return kind{holds: true}
	}
	above[t] = true
	defer delete(above, t)
	switch t.Kind() {
	case reflect.Interface:
		return kind{holds: true}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return kind{holds: inspect(t.Elem(), above).holds}
	case reflect.Struct:
		return inspectStruct(t, above)
	}
	return kind{}
}

func inspectStruct(t reflect.Type, above map[reflect.Type]bool) kind {
	switch t {
	case reflect.TypeFor[time.Time]():
		return kind{holds: true}
	case reflect.TypeFor[metav1.ManagedFieldsEntry]():
		return kind{}
	}
	var found kind
	for i := range t.NumField() {
		if t.Field(i).IsExported() && inspect(t.Field(i).Type, above).holds {
			found.fields = append(found.fields, i)
		}
	}
	found.holds = len(found.fields) > 0
	return found
}
