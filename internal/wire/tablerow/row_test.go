package tablerow_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/util/apihelpers"

	"github.com/millrace/millrace/internal/wire/tablerow"
)

// column prints one cell of an event at a time.
type column func(e *corev1.Event, now time.Time) any

func name(e *corev1.Event, _ time.Time) any { return e.Name }

func since(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

func created(e *corev1.Event, now time.Time) any { return since(e.CreationTimestamp.Time, now) }

func expiry(e *corev1.Event, now time.Time) any {
	return duration.HumanDuration(e.LastTimestamp.Sub(now))
}

// latest prints the age of the later of two timestamps, within other text.
func latest(e *corev1.Event, now time.Time) any {
	last := e.FirstTimestamp
	if last.Before(&e.LastTimestamp) {
		last = e.LastTimestamp
	}
	return fmt.Sprintf("<3> \"%s\" (%s ago & more)", e.Name, since(last.Time, now))
}

func both(e *corev1.Event, now time.Time) any {
	return since(e.FirstTimestamp.Time, now) + "/" + since(e.EventTime.Time, now)
}

func took(e *corev1.Event, _ time.Time) any {
	return duration.HumanDuration(e.LastTimestamp.Sub(e.FirstTimestamp.Time))
}

func dates(e *corev1.Event, _ time.Time) any {
	return e.FirstTimestamp.UTC().Format(time.RFC3339) + " to " + e.LastTimestamp.UTC().Format(time.RFC3339)
}

func count(e *corev1.Event, _ time.Time) any { return int64(e.Count) }

// rowOf prints the row of an event. The row's Object is the whole event.
func rowOf(columns []column, e *corev1.Event, now time.Time) metav1.TableRow {
	r := metav1.TableRow{Object: runtime.RawExtension{Object: e}}
	for _, c := range columns {
		r.Cells = append(r.Cells, c(e, now))
	}
	return r
}

func renderer(columns ...column) tablerow.Render {
	return func(obj runtime.Object) (metav1.TableRow, error) {
		return rowOf(columns, obj.(*corev1.Event), time.Now()), nil
	}
}

// encode returns a row's JSON, cut out of a table that Kubernetes' encoder has written.
func encode(t *testing.T, r metav1.TableRow) string {
	t.Helper()
	codecs := apihelpers.GetMetaInternalVersionCodecs()
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	var out bytes.Buffer
	table := &metav1.Table{Rows: []metav1.TableRow{r}}
	if err := codecs.EncoderForVersion(info.Serializer, metav1.SchemeGroupVersion).Encode(table, &out); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out.String(), `"rows":[`)
	return strings.TrimSuffix(strings.TrimSpace(rest), "]}")
}

const (
	minute = int64(60)
	hour   = 60 * minute
	day    = 24 * hour
	year   = 365 * day
)

// ages are numbers of seconds: both sides of each change of HumanDuration's units, and
// some that do not fit a time.Duration.
func ages() []int64 {
	found := []int64{-400 * year, -20 * year, -5 * minute, -3}
	for _, age := range []int64{
		0, 2, minute, 2 * minute, 10 * minute, 3 * hour, 8 * hour, 2 * day, 8 * day,
		2 * year, 3 * year, 8 * year, 25 * year, 291 * year, 500 * year,
	} {
		found = append(found, age-1, age, age+1, age+age/3)
	}
	return found
}

// past returns the time some seconds ago.
func past(now time.Time, age int64) time.Time { return time.Unix(now.Unix()-age, 0) }

func TestRowsAreWhatTheRendererPrintsAtThatMoment(t *testing.T) {
	columns := []column{name, created, expiry, latest, both, took, dates, count}
	all := ages()
	for i := range all {
		now := time.Now()
		at := func(step int) time.Time { return past(now, all[(i+step)%len(all)]) }
		e := &corev1.Event{
			TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "a<b>&\u2028\xff", CreationTimestamp: metav1.NewTime(at(0)),
				ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: at(1)}}},
			},
			FirstTimestamp: metav1.NewTime(at(7)), LastTimestamp: metav1.NewTime(at(20)),
			EventTime: metav1.NewMicroTime(at(33).Add(123456 * time.Microsecond)), Count: 3,
		}
		before := e.DeepCopy()
		template, err := tablerow.NewBuilder(renderer(columns...)).Build(e)
		if err != nil {
			t.Fatalf("event %v: %v", e, err)
		}
		if !reflect.DeepEqual(e, before) {
			t.Fatalf("the object was changed:\ngot  %v\nwant %v", e, before)
		}
		if template.Fixed() {
			t.Error("a row with ages is said to be fixed")
		}
		for _, later := range all {
			if later < 0 || later > 40*year {
				continue
			}
			then := now.Add(time.Duration(later)*time.Second + 500*time.Millisecond)
			got, want := string(template.Append([]byte("-"), then)), "-"+encode(t, rowOf(columns, before, then))
			if got != want {
				t.Fatalf("after %d s:\ngot  %s\nwant %s", later, got, want)
			}
		}
	}
}

func TestRowsWithoutAgesAreFixed(t *testing.T) {
	now := time.Now()
	for title, columns := range map[string][]column{
		"no cells":          {},
		"data only":         {name, count, took, dates},
		"no such timestamp": {name, created},
	} {
		e := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "a"},
			FirstTimestamp: metav1.NewTime(past(now, hour)), LastTimestamp: metav1.NewTime(past(now, minute)),
		}
		template, err := tablerow.NewBuilder(renderer(columns...)).Build(e)
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		if !template.Fixed() {
			t.Errorf("%s: the row is not fixed", title)
		}
		then := now.Add(1000 * time.Hour)
		if got, want := string(template.Append(nil, then)), encode(t, rowOf(columns, e, then)); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", title, got, want)
		}
		if n := len(template.Append(nil, then)); template.Size() < n {
			t.Errorf("%s: a size of %d for %d bytes", title, template.Size(), n)
		}
	}
}

func TestUnknownUsesOfTheTimeAreVolatile(t *testing.T) {
	now := time.Now()
	for title, c := range map[string]column{
		"number": func(e *corev1.Event, now time.Time) any { return int64(now.Sub(e.CreationTimestamp.Time).Hours()) },
		"threshold": func(e *corev1.Event, now time.Time) any {
			if now.Sub(e.CreationTimestamp.Time) < time.Hour {
				return "new"
			}
			return "old"
		},
		"other unit": func(e *corev1.Event, now time.Time) any { return now.Sub(e.CreationTimestamp.Time).String() },
		"short units": func(e *corev1.Event, now time.Time) any {
			return duration.ShortHumanDuration(now.Sub(e.CreationTimestamp.Time))
		},
		"other date": func(e *corev1.Event, _ time.Time) any { return e.CreationTimestamp.Format(time.RFC822) },
		"mixed":      func(e *corev1.Event, now time.Time) any { return created(e, now).(string) + expiry(e, now).(string) },
	} {
		e := &corev1.Event{
			ObjectMeta:    metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(past(now, 3*minute+5))},
			LastTimestamp: metav1.NewTime(past(now, -hour)),
		}
		if _, err := tablerow.NewBuilder(renderer(name, c)).Build(e); !errors.Is(err, tablerow.ErrVolatile) {
			t.Errorf("%s: got %v, want ErrVolatile", title, err)
		}
	}
}

func TestTooManyOrTooOldTimestampsAreVolatile(t *testing.T) {
	now := time.Now()
	render := func(obj runtime.Object) (metav1.TableRow, error) {
		m, err := meta.Accessor(obj)
		return metav1.TableRow{Cells: []any{since(m.GetCreationTimestamp().Time, time.Now())}}, err
	}
	for _, c := range []struct {
		n, step  int
		volatile bool
	}{{2000, 1, false}, {3000, 0, false}, {2200, 1, true}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(past(now, -hour))}}
		for i := range c.n {
			at := metav1.NewTime(past(now, int64(i*c.step)))
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{LastTransitionTime: at})
		}
		if _, err := tablerow.NewBuilder(render).Build(pod); errors.Is(err, tablerow.ErrVolatile) != c.volatile {
			t.Errorf("%d timestamps, %d s apart: %v", c.n, c.step, err)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}}
	if _, err := tablerow.NewBuilder(render).Build(pod); !errors.Is(err, tablerow.ErrVolatile) {
		t.Errorf("a timestamp before the first: %v", err)
	}
}

// TestAgesMayChangeWhileTheRowIsRendered: an age changes its text between the renderer's
// reading of the clock and its return.
func TestAgesMayChangeWhileTheRowIsRendered(t *testing.T) {
	for _, early := range []bool{true, false} {
		e := &corev1.Event{EventTime: metav1.NewMicroTime(time.Now().Add(2*time.Millisecond - 5*time.Second))}
		turn := e.EventTime.Add(5 * time.Second)
		template, err := tablerow.NewBuilder(func(obj runtime.Object) (metav1.TableRow, error) {
			if early {
				defer waitFor(turn)
			} else {
				waitFor(turn)
			}
			return metav1.TableRow{Cells: []any{since(obj.(*corev1.Event).EventTime.Time, time.Now())}}, nil
		}).Build(e)
		if err != nil {
			t.Fatal(err)
		}
		for then, want := range map[time.Time]string{turn.Add(-time.Millisecond): "4s", turn: "5s", turn.Add(time.Hour): "60m"} {
			if got := string(template.Append(nil, then)); got != `{"cells":["`+want+`"],"object":null}` {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

func waitFor(t time.Time) {
	for time.Now().Before(t) {
	}
}

func TestRenderersErrorsAreReturned(t *testing.T) {
	failure := errors.New("no printer")
	render := func(runtime.Object) (metav1.TableRow, error) { return metav1.TableRow{}, failure }
	if _, err := tablerow.NewBuilder(render).Build(&corev1.Pod{}); !errors.Is(err, failure) {
		t.Errorf("got %v, want the renderer's error", err)
	}
}

// TestUnstructuredObjects prints rows as the convertor of custom resources does.
func TestUnstructuredObjects(t *testing.T) {
	now := time.Now()
	at := func(age int64) string { return past(now, age).UTC().Format(time.RFC3339) }
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "g/v1", "kind": "K",
		"metadata": map[string]any{"name": "2026-not-a-date", "creationTimestamp": at(hour)},
		"status":   map[string]any{"renewals": []any{at(40), "soon", int64(3), nil}, "expires": "9999-12-31T23:59:59Z"},
	}}
	printed := func(u *unstructured.Unstructured, now time.Time) metav1.TableRow {
		renewals, _, _ := unstructured.NestedSlice(u.Object, "status", "renewals")
		renewed, err := time.Parse(time.RFC3339, renewals[0].(string))
		if err != nil {
			t.Fatal(err)
		}
		expires, _, _ := unstructured.NestedString(u.Object, "status", "expires")
		cells := []any{u.GetName(), since(renewed, now), renewals[0], expires, nil, since(u.GetCreationTimestamp().Time, now)}
		return metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: u}}
	}
	template, err := tablerow.NewBuilder(func(obj runtime.Object) (metav1.TableRow, error) {
		return printed(obj.(*unstructured.Unstructured), time.Now()), nil
	}).Build(obj)
	if err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{0, time.Second, time.Hour, 300 * 24 * time.Hour} {
		then := now.Add(later)
		if got, want := string(template.Append(nil, then)), encode(t, printed(obj, then)); got != want {
			t.Errorf("after %v:\ngot  %s\nwant %s", later, got, want)
		}
	}
}
