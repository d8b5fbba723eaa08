package tablerow

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stamp is an instant, and the places in one object that have it as a timestamp.
type stamp struct {
	at     time.Time
	places []place
}

// place is one timestamp in an object. set overwrites it.
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
	// minYear is the first year whose timestamps can be moved into the past and still be
	// printed with four digits.
	minYear = 1000
	// maxYearsAhead is how far ahead a timestamp may be. Beyond, the time until it does
	// not fit a time.Duration, and its text does not change for years.
	maxYearsAhead = 300
)

// findStamps returns an object's timestamps, newest first. It leaves out zero timestamps and
// timestamps too far ahead to age. In typed objects it also leaves out managed fields. It returns
// ErrVolatile for a timestamp that cannot be moved.
func (k *typeInfos) findStamps(obj runtime.Object, now time.Time) ([]stamp, error) {
	f := finder{types: k}
	f.walk(reflect.ValueOf(obj), nil)
	places := slices.DeleteFunc(f.places, func(p place) bool {
		return p.at.IsZero() || p.at.After(now.AddDate(maxYearsAhead, 0, 0))
	})
	slices.SortStableFunc(places, func(a, b place) int { return b.at.Compare(a.at) })
	var stamps []stamp
	for _, p := range places {
		if p.at.Year() < minYear {
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

// finder collects the timestamps in a tree of values.
type finder struct {
	types  *typeInfos
	places []place
}

// walk visits a value and all values below it. written is called whenever a timestamp
// there has been overwritten; it may be nil.
func (f *finder) walk(v reflect.Value, written func()) {
	kind := f.types.lookup(v.Type())
	if !kind.mayHoldStamps {
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
			f.add(at, func(t time.Time) { v.Set(reflect.ValueOf(formatStamp(t)).Convert(value.Type())) }, written)
		}
	case reflect.Struct, reflect.Array:
		f.walkCopy(value, v.Set, written)
	default:
		f.walk(value, written)
	}
}

// walkCopy walks a copy of a value that cannot be overwritten in place. put stores the
// copy in the value's place.
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

// formatStamp returns a timestamp as objects and cells print it.
func formatStamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// typeInfos caches which types may hold timestamps, so that a walk skips most of an
// object. The zero value is ready to use. It is safe for concurrent use.
type typeInfos struct{ byType sync.Map }

// typeInfo says where a type may hold timestamps.
type typeInfo struct {
	mayHoldStamps bool
	// fields are the indices of a struct's fields that may hold timestamps.
	fields []int
}

func (k *typeInfos) lookup(t reflect.Type) typeInfo {
	if known, ok := k.byType.Load(t); ok {
		return known.(typeInfo)
	}
	found := inspect(t, map[reflect.Type]bool{})
	k.byType.Store(t, found)
	return found
}

// inspect examines a type. A type that contains itself is assumed to hold timestamps.
func inspect(t reflect.Type, above map[reflect.Type]bool) typeInfo {
	if above[t] {
		return typeInfo{mayHoldStamps: true}
	}
	above[t] = true
	defer delete(above, t)
	switch t.Kind() {
	case reflect.Interface:
		return typeInfo{mayHoldStamps: true}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return typeInfo{mayHoldStamps: inspect(t.Elem(), above).mayHoldStamps}
	case reflect.Struct:
		return inspectStruct(t, above)
	}
	return typeInfo{}
}

func inspectStruct(t reflect.Type, above map[reflect.Type]bool) typeInfo {
	switch t {
	case reflect.TypeFor[time.Time]():
		return typeInfo{mayHoldStamps: true}
	case reflect.TypeFor[metav1.ManagedFieldsEntry]():
		return typeInfo{}
	}
	var found typeInfo
	for i := range t.NumField() {
		if t.Field(i).IsExported() && inspect(t.Field(i).Type, above).mayHoldStamps {
			found.fields = append(found.fields, i)
		}
	}
	found.mayHoldStamps = len(found.fields) > 0
	return found
}
