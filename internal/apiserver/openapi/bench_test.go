package openapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	benchDefinitions = 2000
	benchProperties  = 100
	benchGroups      = 200
)

// largeDefinition returns a definition with many properties.
func largeDefinition(i int) *definition {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for k := range benchProperties {
		properties[fmt.Sprintf("property%03d", k)] = apiextensionsv1.JSONSchemaProps{
			Type: "string", Description: fmt.Sprintf("Property %d of kind %d says what the object is to be.", k, i),
		}
	}
	root := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: properties},
	}}
	group := fmt.Sprintf("group%d.example.com", i%benchGroups)
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: fmt.Sprintf("kind%ds", i), Kind: fmt.Sprintf("Kind%d", i), ListKind: fmt.Sprintf("Kind%dList", i),
	}
	return &definition{
		ObjectMeta: metav1.ObjectMeta{Name: names.Plural + "." + group, Generation: 1},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions:    []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
		},
	}
}

func largeDefinitions() []*definition {
	all := make([]*definition, benchDefinitions)
	for i := range all {
		all[i] = largeDefinition(i)
	}
	return all
}

// discardWriter counts the bytes of an answer.
type discardWriter struct {
	header http.Header
	size   int64
}

func (s *discardWriter) Header() http.Header         { return s.header }
func (s *discardWriter) WriteHeader(int)             {}
func (s *discardWriter) Write(p []byte) (int, error) { s.size += int64(len(p)); return len(p), nil }
func (s *discardWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(struct{ io.Writer }{s}, r)
	return n, err
}

func ask(b *testing.B, h http.Handler, path string, header ...string) int64 {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := &discardWriter{header: http.Header{}}
	h.ServeHTTP(w, r)
	if w.size == 0 {
		b.Fatal("nothing was sent")
	}
	return w.size
}

// cpu is the CPU seconds of the process. On a machine with other work they can be
// compared; time cannot.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}

const proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

// BenchmarkFirstV2 reads the document of 2,000 definitions for the first time.
func BenchmarkFirstV2(b *testing.B) {
	for _, accept := range []string{"application/json", proto} {
		b.Run("form="+strconv.Itoa(len(accept)), func(b *testing.B) {
			c := newCatalog(largeDefinitions()...)
			for b.Loop() {
				before := heap()
				server := newServer(b, c, aggregator(), newBuiltin("extensions", "definitions", "Definition"))
				b.ResetTimer()
				used := cpu()
				size := ask(b, server.Wrap(http.NotFoundHandler()), "/openapi/v2", "Accept", accept)
				b.StopTimer()
				b.ReportMetric(cpu()-used, "cpu-s")
				b.ReportMetric(heap()-before, "MB-kept")
				b.ReportMetric(float64(size)/(1<<20), "MB-document")
				b.ReportMetric(float64(server.CachedBytes())/(1<<20), "MB-cache")
				b.StartTimer()
			}
		})
	}
}

// BenchmarkFirstV3 reads all documents of 2,000 definitions for the first time.
func BenchmarkFirstV3(b *testing.B) {
	c := newCatalog(largeDefinitions()...)
	for b.Loop() {
		before := heap()
		server := newServer(b, c, aggregator(), newBuiltin("extensions", "definitions", "Definition"))
		h := server.Wrap(http.NotFoundHandler())
		paths := roots(b, h)
		b.ResetTimer()
		used := cpu()
		var size int64
		for path := range paths {
			size += ask(b, h, "/openapi/v3/"+path)
		}
		b.StopTimer()
		b.ReportMetric(cpu()-used, "cpu-s")
		b.ReportMetric(heap()-before, "MB-kept")
		b.ReportMetric(float64(size)/(1<<20), "MB-documents")
		b.StartTimer()
	}
}

// BenchmarkFirstV2Upstream does the same with Kubernetes' implementation.
func BenchmarkFirstV2Upstream(b *testing.B) {
	definitions := largeDefinitions()
	for b.Loop() {
		before := heap()
		u := newUpstream(b, definitions, newBuiltin("extensions", "definitions", "Definition"))
		for ticker := time.NewTicker(time.Second); len(roots(b, u)) <= benchGroups; {
			<-ticker.C
		}
		b.ReportMetric(heap()-before, "MB-idle")
		b.ResetTimer()
		used := cpu()
		size := ask(b, u, "/openapi/v2")
		b.StopTimer()
		b.ReportMetric(cpu()-used, "cpu-s")
		b.ReportMetric(heap()-before, "MB-kept")
		b.ReportMetric(float64(size)/(1<<20), "MB-document")
		b.StartTimer()
	}
}

// BenchmarkRepeated reads documents whose fragments are cached.
func BenchmarkRepeated(b *testing.B) {
	c := newCatalog(largeDefinitions()...)
	server := newServer(b, c, aggregator(), newBuiltin("extensions", "definitions", "Definition"))
	h := server.Wrap(http.NotFoundHandler())
	for _, read := range []struct{ name, path, encoding string }{
		{"v2", "/openapi/v2", ""},
		{"v2-gzip", "/openapi/v2", "gzip"},
		{"v3", "/openapi/v3/apis/group1.example.com/v1", ""},
		{"v3-root", "/openapi/v3", ""},
	} {
		b.Run(read.name, func(b *testing.B) {
			ask(b, h, read.path, "Accept-Encoding", read.encoding)
			for b.Loop() {
				b.SetBytes(ask(b, h, read.path, "Accept-Encoding", read.encoding))
			}
		})
	}
}

// BenchmarkChanged reads documents after one definition has changed.
func BenchmarkChanged(b *testing.B) {
	c := newCatalog(largeDefinitions()...)
	server := newServer(b, c, aggregator(), newBuiltin("extensions", "definitions", "Definition"))
	h := server.Wrap(http.NotFoundHandler())
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/group1.example.com/v1"} {
		b.Run(path[len("/openapi/"):len("/openapi/v2")], func(b *testing.B) {
			ask(b, h, path, "Accept-Encoding", "gzip")
			changed := largeDefinition(1)
			for i := 0; b.Loop(); i++ {
				changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(i)
				c.put(changed)
				ask(b, h, path, "Accept-Encoding", "gzip")
			}
		})
	}
}
