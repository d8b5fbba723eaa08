package transcode

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// benchmarkPods are the pods of a benchmark: enough that they do not stay in the processor's
// caches.
const benchmarkPods = 1000

// BenchmarkPod writes one pod: with the transcoder, one whose volumes have names of their own,
// with Kubernetes' decoder and encoder, and by copying the result, which is the least that it
// can cost.
func BenchmarkPod(b *testing.B) {
	v := versionOf(b, "v1", "Pod")
	for _, size := range []int{8000, 17000} {
		entries, others := pods(b, benchmarkPods, size), changedPods(b, benchmarkPods, size, nameVolumes)
		for _, framing := range []encode.Framing{encode.WatchJSON, encode.WatchProtobuf} {
			name := fmt.Sprintf("%d/%s", size, mediaTypes[targets[framing]][len("application/"):])
			proofs := transcode.NewProofs(transcode.Config{})
			b.Run(name+"/transcoder", func(b *testing.B) {
				benchmarkFrames(b, newForm(b, v, framing, transcode.New(v.tables, targets[framing], "pods", proofs, nil)), entries)
			})
			b.Run(name+"/volumes", func(b *testing.B) {
				benchmarkFrames(b, newForm(b, v, framing, transcode.New(v.tables, targets[framing], "pods", proofs, nil)), others)
			})
			if c := proofs.Counts(); c.Different+c.Declined > 0 || c.Transcoded < 10*c.Compared {
				b.Errorf("%+v", c)
			}
			b.Run(name+"/kubernetes", func(b *testing.B) { benchmarkFrames(b, newForm(b, v, framing, nil), entries) })
			b.Run(name+"/copy", func(b *testing.B) {
				defer reportCPU(b)()
				frame := bytes.Clone(oneFrame(b, newForm(b, v, framing, nil), entries[0]))
				b.SetBytes(int64(len(frame)))
				for b.Loop() {
					_ = bytes.Clone(frame)
				}
			})
		}
	}
}

func benchmarkFrames(b *testing.B, f *encode.Form, entries []*entry.Entry) {
	b.ReportAllocs()
	defer reportCPU(b)()
	i := 0
	for b.Loop() {
		b.SetBytes(int64(len(oneFrame(b, f, entries[i%len(entries)]))))
		i++
	}
}

// oneFrame is the frame of an entry, which is not kept.
func oneFrame(b *testing.B, f *encode.Form, e *entry.Entry) []byte {
	s := &encode.Stream{Form: f, Observe: func(int) {}}
	change := encode.Change{Kind: watch.Modified, Entry: e, Revision: e.Revision, Frames: new(encode.Frames)}
	segments, _, err := s.Append(nil, []encode.Change{change}, 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	return segments[0]
}

// BenchmarkList writes a LIST of which nothing is in memory yet, plain and with gzip.
func BenchmarkList(b *testing.B) {
	v := versionOf(b, "v1", "Pod")
	for _, size := range []int{8000, 17000} {
		entries, others := pods(b, benchmarkPods, size), changedPods(b, benchmarkPods, size, nameVolumes)
		for _, framing := range []encode.Framing{encode.JSON, encode.Protobuf} {
			proofs := transcode.NewProofs(transcode.Config{})
			fast, plain := newForm(b, v, framing, transcode.New(v.tables, targets[framing], "pods", proofs, nil)), newForm(b, v, framing, nil)
			for _, encoding := range []encode.Encoding{encode.Identity, encode.Gzip} {
				name := fmt.Sprintf("%d/%s%s", size, plain.MediaType()[len("application/"):], encoding)
				b.Run(name+"/transcoder", func(b *testing.B) { benchmarkLists(b, fast, entries, encoding) })
				b.Run(name+"/volumes", func(b *testing.B) { benchmarkLists(b, fast, others, encoding) })
				b.Run(name+"/kubernetes", func(b *testing.B) { benchmarkLists(b, plain, entries, encoding) })
			}
		}
	}
}

func benchmarkLists(b *testing.B, f *encode.Form, entries []*entry.Entry, encoding encode.Encoding) {
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		benchmarkList(b, f, entries, encoding)
	}
}

// reportCPU reports the processor time of each operation, garbage collection included. Other
// processes disturb it less than the time that passes.
func reportCPU(b *testing.B) (report func()) {
	used := func() int64 {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return usage.Utime.Nano() + usage.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// leafEntries is how many entries a leaf of the cache's tree has.
const leafEntries = 24

func benchmarkList(b *testing.B, f *encode.Form, entries []*entry.Entry, encoding encode.Encoding) {
	var runs []encode.EntryRun
	for from := 0; from < len(entries); from += leafEntries {
		group := entries[from:min(from+leafEntries, len(entries))]
		runs = append(runs, encode.EntryRun{Memo: new(encode.Memo), Entries: group, To: len(group)})
	}
	list := &encode.List{Form: f, Runs: func(yield func(encode.EntryRun) bool) {
		for _, run := range runs {
			if !yield(run) {
				return
			}
		}
	}}
	var size countWriter
	if err := list.Write(&size, encoding); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
}

// countWriter counts the bytes that are written to it.
type countWriter int

func (c *countWriter) Write(p []byte) (int, error) {
	*c += countWriter(len(p))
	return len(p), nil
}
