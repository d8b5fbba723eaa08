package transcodetest

import (
	"bytes"
	"flag"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/transcode"
)

var inputsFlag = flag.Int("inputs", 20_000, "edited objects that TestEditedObjects sends; 100,000,000 take some hours")

// TestEditedObjects edits the stored bytes of random objects of all versions, one field each
// time, and sends them in JSON and protobuf: they are equal to Kubernetes' bytes, or left to
// Kubernetes. Objects with one fingerprint must be all equal or all different.
//
// Its inputs are of more use than FuzzStored's: edits keep the lengths around a field right, so
// most are read, and compared in a form. Those that the transcoder leaves to Kubernetes are not
// encoded.
func TestEditedObjects(t *testing.T) {
	var compared atomic.Int64
	var group sync.WaitGroup
	began, queue := time.Now(), make(chan *version, len(versions()))
	known := 0
	for _, v := range versions() {
		if v.tables != nil {
			queue <- v
			known++
		}
	}
	close(queue)
	for range 2 {
		group.Go(func() {
			for v := range queue {
				compared.Add(sendEdited(t, v, *inputsFlag/known+1))
			}
		})
	}
	group.Wait()
	t.Logf("%d objects, of which %d were compared in a form, %.0f a second", *inputsFlag, compared.Load(), float64(*inputsFlag)/time.Since(began).Seconds())
	if compared.Load() < int64(*inputsFlag)/10 {
		t.Errorf("only %d of %d objects were compared in a form", compared.Load(), *inputsFlag)
	}
}

// sendEdited sends n edited objects of a version, and returns how often one was compared.
func sendEdited(t *testing.T, v *version, n int) int64 {
	source := rand.NewSource(*seedFlag)
	r, filler := rand.New(source), fuzzer.FuzzerFor(v.funcs, source, v.codecs)
	s := newEditedSender(t, v)
	const edits, atOnce = 50, 3
	for n > 0 {
		seed := unwrap(t, v, v.random(t, filler, r.Intn(4) > 0))
		for range min(n, edits) {
			edited := seed
			for range 1 + r.Intn(atOnce) {
				edited = edit(nil, edited, r)
			}
			s.send(t, edited)
		}
		n -= edits
		if s.lanes[0].proofs.Counts().Proven > maxKnown {
			s = newEditedSender(t, v)
		}
	}
	return s.compared
}

// maxKnown is how many fingerprints a sender may know. Proofs forget them at some number, and
// refuse to prove any when too many are refuted.
const maxKnown = 10_000

// editedSender sends objects of one version in both forms.
type editedSender struct {
	version  *version
	lanes    []*lane
	out      []byte
	compared int64
}

func newEditedSender(t *testing.T, v *version) *editedSender {
	return &editedSender{version: v, lanes: []*lane{newLane(t, v, transcode.ObjectJSON), newLane(t, v, transcode.ObjectProtobuf)}}
}

// send sends an object, given without its envelope.
func (s *editedSender) send(t *testing.T, content []byte) {
	e := &resource.Entry{Key: "ns/name", Revision: revision, Value: wrap(t, s.version, content)}
	for _, l := range s.lanes {
		before := l.proofs.Counts()
		var want []byte
		got, err := l.transcoder.Append(s.out[:0], e, func(dst []byte) ([]byte, error) {
			if c := l.proofs.Counts(); c.Declined > before.Declined || c.Refuted > before.Refuted {
				return dst, nil
			}
			obj, err := l.version.decode(e)
			if err != nil {
				return dst, err
			}
			var buf bytes.Buffer
			if err := l.encoder.Encode(obj, &buf); err != nil {
				return dst, err
			}
			s.compared++
			want = buf.Bytes()
			return append(dst, want...), nil
		})
		s.out = got
		if want != nil && err == nil && !bytes.Equal(got, want) {
			t.Errorf("%v: sent %q, want %q", l.version.kind, got, want)
		}
		if l.alarm.text != "" {
			t.Errorf("%v: objects with one fingerprint were equal and different: %s: %x", l.version.kind, l.alarm.text, content)
			l.alarm.text = ""
		}
	}
}

// edit appends a message to dst in which one field is another one. Lengths around it are
// right.
func edit(dst, message []byte, r *rand.Rand) []byte {
	fields := splitFields(message)
	if len(fields) == 0 {
		return append(dst, message...)
	}
	chosen := r.Intn(len(fields))
	for i, f := range fields {
		if i != chosen {
			dst = append(dst, f...)
			continue
		}
		switch r.Intn(12) {
		case 0: // The field is gone.
		case 1: // It is there twice.
			dst = append(append(dst, f...), f...)
		case 2: // Another one is in its place.
			dst = append(dst, fields[r.Intn(len(fields))]...)
		default:
			dst = editField(dst, f, r)
		}
	}
	return dst
}

// splitFields splits a message into its fields. It returns nil if it is none.
func splitFields(message []byte) [][]byte {
	var fields [][]byte
	for len(message) > 0 {
		_, _, n := protowire.ConsumeField(message)
		if n < 0 {
			return nil
		}
		fields, message = append(fields, message[:n]), message[n:]
	}
	return fields
}

// editField appends a field with another value.
func editField(dst, field []byte, r *rand.Rand) []byte {
	number, kind, n := protowire.ConsumeTag(field)
	dst = protowire.AppendTag(dst, number, kind)
	switch kind {
	case protowire.VarintType:
		v, _ := protowire.ConsumeVarint(field[n:])
		return protowire.AppendVarint(dst, editedNumber(v, r))
	case protowire.BytesType:
		content, _ := protowire.ConsumeBytes(field[n:])
		if fields := splitFields(content); len(fields) > 0 && r.Intn(8) > 0 {
			return protowire.AppendBytes(dst, edit(nil, content, r))
		}
		return protowire.AppendBytes(dst, editedText(content, r))
	}
	return append(dst, field[n:]...)
}

func editedNumber(v uint64, r *rand.Rand) uint64 {
	return []uint64{0, 1, v + 1, v - 1, -v, r.Uint64() >> r.Intn(64), 1 << 31, 1<<63 - 1}[r.Intn(8)]
}

func editedText(text []byte, r *rand.Rand) []byte {
	if len(text) == 0 || r.Intn(6) == 0 {
		return []byte([]string{"", words[r.Intn(len(words))]}[r.Intn(2)])
	}
	edited := bytes.Clone(text)
	at := r.Intn(len(edited))
	switch r.Intn(4) {
	case 0:
		edited[at] ^= 1 << r.Intn(8)
	case 1:
		edited[at] = []byte("\x00\n\"\\<>& /-.0é\x7f\xff")[r.Intn(16)]
	case 2:
		edited = edited[:at]
	default:
		edited[at] = byte('a' + r.Intn(26))
	}
	return edited
}
