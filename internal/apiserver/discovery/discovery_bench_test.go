package discovery_test

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// discardWriter is a http.ResponseWriter that drops what is written.
type discardWriter struct{ header http.Header }

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
func (d *discardWriter) WriteHeader(int)             {}

func get(b *testing.B, h http.Handler, header http.Header) {
	b.Helper()
	req, err := http.NewRequest(http.MethodGet, "/apis", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header = header
	h.ServeHTTP(&discardWriter{header: http.Header{}}, req)
}

// BenchmarkAggregated reads the aggregated document: unchanged, and after a change of one
// group each time.
func BenchmarkAggregated(b *testing.B) {
	for _, groups := range []int{421, 4000} {
		pair := newManagerPair(b)
		for _, side := range []struct {
			name string
			m    aggregated.ResourceManager
		}{{"ours", pair.ours}, {"kubernetes", pair.theirs}} {
			fillManager(side.m, groups)
			json := http.Header{"Accept": {accepts[0]}}
			gzipped := http.Header{"Accept": {accepts[0]}, "Accept-Encoding": {"gzip"}}
			known := http.Header{"Accept": {accepts[0]}, "If-None-Match": {ask(side.m, "/apis", json).Header().Get("ETag")}}
			for _, c := range []struct {
				name   string
				header http.Header
			}{{"json", json}, {"gzip", gzipped}, {"protobuf", http.Header{"Accept": {accepts[1]}}}, {"unmodified", known}} {
				b.Run(fmt.Sprintf("%d/%s/%s", groups, c.name, side.name), func(b *testing.B) {
					get(b, side.m, c.header)
					for b.Loop() {
						get(b, side.m, c.header)
					}
				})
			}
			for _, c := range []struct {
				name   string
				header http.Header
			}{{"json", json}, {"gzip", gzipped}} {
				b.Run(fmt.Sprintf("%d/changed %s/%s", groups, c.name, side.name), func(b *testing.B) {
					n := 0
					for b.Loop() {
						n++
						gv := metav1.GroupVersion{Group: "g0007.example.com", Version: "v1"}
						side.m.WithSource(aggregated.CRDSource).AddGroupVersion(gv.Group, version(gv, 1+n%5, 1))
						get(b, side.m, c.header)
					}
				})
			}
		}
	}
}

// BenchmarkChange changes one definition of many, and reads nothing.
func BenchmarkChange(b *testing.B) {
	for _, groups := range []int{421, 4000} {
		b.Run(fmt.Sprint(groups), func(b *testing.B) {
			s := newServer(b)
			for i := range groups {
				s.Custom().Change(nil, definition(i, true))
			}
			n := 0
			for b.Loop() {
				n++
				s.Custom().Change(definition(7, n%2 == 0), definition(7, n%2 == 1))
			}
		})
	}
}

func definition(group int, established bool) *crd.Definition {
	d := &crd.Definition{Name: fmt.Sprintf("things.g%04d.example.com", group), Group: fmt.Sprintf("g%04d.example.com", group), Established: established}
	d.Accepted.Plural, d.Accepted.Kind = "things", "Thing"
	d.Versions = []crd.Version{{Name: "v1", Served: true, Storage: true, Status: true}}
	return d
}

// BenchmarkGroups reads the list of groups, unchanged and after a change of one group.
func BenchmarkGroups(b *testing.B) {
	s := newServer(b)
	for i := range 421 {
		o := apiServiceOf(fmt.Sprintf("g%04d.example.com", i))
		s.Services().Handler().OnAdd(o, true)
	}
	h := s.Wrap(http.NotFoundHandler())
	json := http.Header{"Accept": {"application/json"}}
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			get(b, h, json)
		}
	})
	b.Run("changed", func(b *testing.B) {
		n := int32(0)
		for b.Loop() {
			n++
			o := apiServiceOf("g0007.example.com")
			o.Spec.GroupPriorityMinimum = 1000 + n%2
			s.Services().Handler().OnUpdate(nil, o)
			get(b, h, json)
		}
	})
}
