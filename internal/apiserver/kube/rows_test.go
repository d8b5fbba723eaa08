package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubefuzzer "k8s.io/kubernetes/pkg/api/testing"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/wire/tablerow"
)

// schemeKinds is a scheme, and how to make objects of its kinds.
type schemeKinds struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	funcs  fuzzer.FuzzerFuncs
}

func schemesToPrint() []schemeKinds {
	return []schemeKinds{
		{legacyscheme.Scheme, legacyscheme.Codecs, kubefuzzer.FuzzerFuncs},
		{aggregatorscheme.Scheme, aggregatorscheme.Codecs, metafuzzer.Funcs},
		{apiextensionsapiserver.Scheme, apiextensionsapiserver.Codecs, fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, apiextensionsfuzzer.Funcs)},
	}
}

// printedKind is a kind, in the version in which its test objects are written.
type printedKind struct {
	schemeKinds
	kind     schema.GroupVersionKind
	resource schema.GroupResource
	table    rest.TableConvertor
}

// printedKinds are all kinds that have lists, each once.
func printedKinds() []printedKind {
	tables := kube.NewTables()
	seen := map[schema.GroupKind]bool{}
	var found []printedKind
	for _, f := range schemesToPrint() {
		for _, gv := range f.scheme.PrioritizedVersionsAllGroups() {
			for name := range f.scheme.KnownTypes(gv) {
				gvk := gv.WithKind(name)
				internal := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
				if seen[gvk.GroupKind()] || !f.scheme.Recognizes(internal.WithKind(name+"List")) {
					continue
				}
				seen[gvk.GroupKind()] = true
				gvr, _ := meta.UnsafeGuessKindToResource(gvk)
				gr := gvr.GroupResource()
				if table := tables.Of(gr); table != nil {
					found = append(found, printedKind{f, gvk, gr, table})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b printedKind) int { return bytes.Compare([]byte(a.kind.String()), []byte(b.kind.String())) })
	return found
}

// render prints an object as a row with its metadata, or with all of it.
func (p printedKind) render(include metav1.IncludeObjectPolicy) tablerow.Render {
	return func(obj runtime.Object) (metav1.TableRow, error) {
		table, err := p.table.ConvertToTable(context.Background(), obj, &metav1.TableOptions{NoHeaders: true})
		if err != nil {
			return metav1.TableRow{}, err
		}
		r := table.Rows[0]
		if include == metav1.IncludeObject {
			r.Object.Object, err = p.scheme.ConvertToVersion(r.Object.Object, p.kind.GroupVersion())
			return r, err
		}
		m, err := meta.Accessor(r.Object.Object)
		if err != nil {
			return metav1.TableRow{}, err
		}
		partial := meta.AsPartialObjectMetadata(m)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		r.Object.Object = partial
		return r, nil
	}
}

// hasDates reports whether the kind is printed with dates in place of ages.
func (p printedKind) hasDates() bool { return p.table == rest.NewDefaultTableConvertor(p.resource) }

// random makes an object that can be printed; some printers rely on validation.
func (p printedKind) random(t *testing.T, fill func(any)) runtime.Object {
	t.Helper()
	for range 10_000 {
		obj, err := p.scheme.New(schema.GroupVersionKind{Group: p.kind.Group, Version: runtime.APIVersionInternal, Kind: p.kind.Kind})
		if err != nil {
			t.Fatal(err)
		}
		if fill(obj); p.canPrint(obj) {
			return obj
		}
	}
	t.Fatalf("no random %s can be printed", p.kind)
	return nil
}

func (p printedKind) canPrint(obj runtime.Object) (ok bool) {
	defer func() { ok = recover() == nil }()
	_, _ = p.render(metav1.IncludeMetadata)(obj)
	return true
}

func (p printedKind) encode(t *testing.T, obj runtime.Object) string {
	t.Helper()
	b, err := runtime.Encode(p.codecs.LegacyCodec(p.kind.GroupVersion()), obj)
	if err != nil {
		t.Fatalf("encode %s: %v", p.kind, err)
	}
	return string(b)
}

func (p printedKind) decode(t *testing.T, encoded string) runtime.Object {
	t.Helper()
	obj, err := runtime.Decode(p.codecs.UniversalDecoder(schema.GroupVersion{Group: p.kind.Group, Version: runtime.APIVersionInternal}), []byte(encoded))
	if err != nil {
		t.Fatalf("decode %s: %v\n%s", p.kind, err, encoded)
	}
	return obj
}

// timestamps matches timestamps in JSON.
func timestamps() *regexp.Regexp {
	return regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
}

// redate replaces all timestamps in JSON.
func redate(encoded string, to func(time.Time) time.Time) string {
	return timestamps().ReplaceAllStringFunc(encoded, func(old string) string {
		layout := `"` + time.RFC3339 + `"`
		if len(old) > len(layout) {
			layout = `"` + metav1.RFC3339Micro + `"`
		}
		at, err := time.Parse(layout, old)
		if err != nil {
			panic(err)
		}
		return `"` + to(at).UTC().Format(layout[1:len(layout)-1]) + `"`
	})
}

const day = 24 * time.Hour

// randomAge is near an age at which HumanDuration changes its units, or in the future.
func randomAge(r *rand.Rand) time.Duration {
	bounds := []time.Duration{
		-30 * 365 * day, -40 * day, -time.Minute, -2 * time.Second, 0, time.Minute, 2 * time.Minute, 10 * time.Minute, time.Hour,
		3 * time.Hour, 8 * time.Hour, day, 2 * day, 8 * day, 100 * day, 2 * 365 * day, 5 * 365 * day, 8 * 365 * day, 60 * 365 * day,
	}
	bound := bounds[r.Intn(len(bounds))]
	return bound + time.Duration(r.Intn(5)-2)*time.Second + time.Duration(r.Intn(1e6))*time.Microsecond
}

// TestRowAgesEqualKubernetes compares templates with the printers. For a later time, the
// printers get an object whose timestamps are that much earlier.
func TestRowAgesEqualKubernetes(t *testing.T) {
	const seed, objects = 7, 12
	kinds := printedKinds()
	if len(kinds) < 60 {
		t.Fatalf("found only %d kinds", len(kinds))
	}
	rows, ageing := 0, 0
	for i, p := range kinds {
		src := rand.NewSource(seed + int64(i))
		r := rand.New(src)
		filler := fuzzer.FuzzerFor(p.funcs, src, p.codecs)
		for range objects {
			now := time.Now()
			encoded := redate(p.encode(t, p.random(t, filler.Fill)), func(time.Time) time.Time { return now.Add(-randomAge(r)) })
			include := metav1.IncludeMetadata
			if r.Intn(2) == 0 {
				include = metav1.IncludeObject
			}
			template, err := tablerow.NewBuilder(p.render(include)).Build(p.decode(t, encoded))
			if err != nil {
				if errors.Is(err, tablerow.ErrVolatile) {
					t.Errorf("%s: %v\n%s", p.kind, err, encoded)
					continue
				}
				t.Fatalf("%s (seed %d): %v", p.kind, seed, err)
			}
			rows++
			if !template.Fixed() {
				ageing++
			}
			p.compare(t, template, encoded, include)
		}
	}
	t.Logf("%d rows of %d kinds, %d with ages", rows, len(kinds), ageing)
	if ageing < rows/2 {
		t.Errorf("only %d of %d rows have ages", ageing, rows)
	}
}

// compare checks a template at several times.
func (p printedKind) compare(t *testing.T, template *tablerow.Template, encoded string, include metav1.IncludeObjectPolicy) {
	t.Helper()
	own, err := p.render(include)(p.decode(t, encoded))
	if err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{0, time.Second, time.Minute, 61 * time.Minute, 30 * time.Hour, 9 * day, 800 * day, 9 * 365 * day} {
		if p.kind.Kind == "CustomResourceDefinition" && later > 0 {
			break // its table has a time, no age
		}
		moved := p.decode(t, redate(encoded, func(at time.Time) time.Time { return at.Add(-later) }))
		from := time.Now()
		want, err := p.render(include)(moved)
		to := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		want.Object = own.Object
		if p.hasDates() {
			want.Cells = own.Cells
		}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		// An age may have changed between the two clock readings.
		got := template.Append(nil, from.Add(later))
		if !bytes.Equal(got, b) && !bytes.Equal(template.Append(nil, to.Add(later)), b) {
			t.Fatalf("%s after %v:\ngot  %s\nwant %s\nof %s", p.kind, later, got, b, encoded)
		}
	}
}

// TestRowsWithSeveralAges has objects with several ages, which random objects rarely
// have.
func TestRowsWithSeveralAges(t *testing.T) {
	const created = `"metadata":{"name":"a","namespace":"ns","creationTimestamp":"2000-01-01T00:00:01Z"}`
	status := func(restarts, finished string) string {
		return `{"name":"c","restartCount":` + restarts + `,"lastState":{"terminated":{"exitCode":1,"startedAt":"2000-01-01T00:00:03Z","finishedAt":"` + finished + `"}}}`
	}
	containers := func(second, fourth string) string {
		return `"status":{"initContainerStatuses":[` + status("1", "2000-01-01T00:00:05Z") + `],"containerStatuses":[` +
			status("2", second) + "," + status("3", "2000-01-01T00:00:03Z") + "," + status("4", fourth) + `]}`
	}
	for i, encoded := range []string{
		`{"apiVersion":"v1","kind":"Pod",` + created + `,` + containers("2000-01-01T00:00:02Z", "2000-01-01T00:00:04Z") + `}`,
		`{"apiVersion":"v1","kind":"Pod",` + created + `,` + containers("2000-01-01T00:00:04Z", "2000-01-01T00:00:02Z") + `}`,
		`{"apiVersion":"batch/v1","kind":"Job",` + created + `,"status":{"startTime":"2000-01-01T00:00:02Z"}}`,
		`{"apiVersion":"batch/v1","kind":"Job",` + created + `,"status":{"startTime":"2000-01-01T00:00:02Z","completionTime":"2000-01-01T00:00:03Z"}}`,
		`{"apiVersion":"batch/v1","kind":"CronJob",` + created + `,"status":{"lastScheduleTime":"2000-01-01T00:00:02Z"}}`,
		`{"apiVersion":"v1","kind":"Event",` + created + `,"firstTimestamp":"2000-01-01T00:00:02Z","lastTimestamp":"2000-01-01T00:00:03Z"}`,
		`{"apiVersion":"v1","kind":"Event",` + created + `,"eventTime":"2000-01-01T00:00:02.000000Z","series":{"count":2,"lastObservedTime":"2000-01-01T00:00:03.000000Z"}}`,
		`{"apiVersion":"v1","kind":"Event","metadata":{"name":"a"},"firstTimestamp":null,"eventTime":null}`,
		`{"apiVersion":"resource.k8s.io/v1alpha3","kind":"ResourcePoolStatusRequest",` + created + `,"status":{"conditions":[` +
			`{"type":"Complete","status":"True","reason":"r","message":"m","lastTransitionTime":"2000-01-01T00:00:02Z"}]}}`,
	} {
		var kind metav1.TypeMeta
		if err := json.Unmarshal([]byte(encoded), &kind); err != nil {
			t.Fatal(err)
		}
		kinds := printedKinds()
		p := kinds[slices.IndexFunc(kinds, func(p printedKind) bool { return p.kind.Kind == kind.Kind })]
		for round := range 20 {
			r := rand.New(rand.NewSource(int64(100*i + round)))
			now, offsets := time.Now(), map[int]time.Duration{}
			dated := redate(encoded, func(at time.Time) time.Time {
				n := at.Second()
				if _, known := offsets[n]; !known {
					offsets[n] = randomAge(r)
				}
				return now.Add(-offsets[n])
			})
			template, err := tablerow.NewBuilder(p.render(metav1.IncludeMetadata)).Build(p.decode(t, dated))
			if err != nil {
				t.Fatalf("%v of %s", err, dated)
			}
			p.compare(t, template, dated, metav1.IncludeMetadata)
		}
	}
}

// BenchmarkRowOfAPod measures the cost of a pod's row: once for each version of the pod,
// and each time that the row is written.
func BenchmarkRowOfAPod(b *testing.B) {
	kinds := printedKinds()
	p := kinds[slices.IndexFunc(kinds, func(p printedKind) bool { return p.kind.Kind == "Pod" })]
	at := func(age time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-age).Truncate(time.Second)) }
	pod := &api.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-6d4cf56db6-abcde", Namespace: "ns", UID: "0a1b2c3d-0000-4000-8000-000000000000", ResourceVersion: "12345",
		CreationTimestamp: at(time.Hour), Labels: map[string]string{"app": "web", "pod-template-hash": "6d4cf56db6"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":"` + strings.Repeat("f", 1000) + `"}`)}}},
	}}
	pod.Spec = api.PodSpec{NodeName: "node", Containers: make([]api.Container, 2), Volumes: make([]api.Volume, 3), Tolerations: make([]api.Toleration, 2)}
	for i := range 2 {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, api.ContainerStatus{
			RestartCount: 2, State: api.ContainerState{Running: &api.ContainerStateRunning{StartedAt: at(time.Minute)}},
			LastTerminationState: api.ContainerState{Terminated: &api.ContainerStateTerminated{StartedAt: at(30 * time.Minute), FinishedAt: at(time.Duration(2+i) * time.Minute)}},
		})
	}
	for i := range 5 {
		pod.Status.Conditions = append(pod.Status.Conditions, api.PodCondition{LastTransitionTime: at(time.Duration(i) * time.Hour)})
	}
	render := p.render(metav1.IncludeMetadata)
	builder := tablerow.NewBuilder(render)
	template, err := builder.Build(pod)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("render", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, _ := render(pod)
			_, _ = json.Marshal(r)
		}
	})
	b.Run("build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = builder.Build(pod)
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		buf, now := template.Append(nil, time.Now()), time.Now()
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			buf = template.Append(buf[:0], now)
		}
	})
	b.ReportMetric(float64(template.Size()), "bytes/row")
}
