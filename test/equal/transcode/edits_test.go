package transcode

import (
	"bytes"
	"flag"
	"math/rand"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

var inputsFlag = flag.Int("inputs", 20_000, "edited objects that TestEditedObjects sends; runs with other seeds add up, and 100,000,000 take hours")

const (
	// maxPart bounds the inputs of a part, so that all processors have work until the end.
	maxPart = 20_000
	// editsOfSeed is how many edited objects come of one random object.
	editsOfSeed = 200
	// editsAtOnce bounds how many edits an object gets at once.
	editsAtOnce = 3
	// maxGrowth bounds how many times larger than the random object edited ones become.
	maxGrowth = 2
	// maxKnown is how many fingerprints a sender may know. Proofs forget them at some number,
	// and refuse to prove any when too many are refuted.
	maxKnown = 10_000
	// editedGCPercent lets the heap grow. It has little but garbage.
	editedGCPercent = 1000
)

// TestEditedObjects edits the stored bytes of random objects of all versions, and sends them
// in JSON and protobuf: they are equal to Kubernetes' bytes, or left to Kubernetes. Objects
// with one fingerprint must be all equal or all different.
//
// Its inputs are of more use than FuzzStored's: edits keep the lengths around a field right, so
// most are read, and compared in a form. Those that the transcoder leaves to Kubernetes are not
// encoded.
//
// It logs once a minute how far it is. The numbers of runs with different seeds add up, so a
// long run may be made of short ones.
func TestEditedObjects(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(editedGCPercent))
	run := &editedRun{t: t, began: time.Now()}
	parts := editedParts(*inputsFlag)
	queue := make(chan editedPart, len(parts))
	for _, part := range parts {
		queue <- part
	}
	close(queue)
	var group sync.WaitGroup
	for range goruntime.GOMAXPROCS(0) {
		group.Go(func() {
			for part := range queue {
				run.send(part)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	run.logUntil(ended)
	if inputs, compared := run.inputs.Load(), run.compared.Load(); inputs < int64(*inputsFlag) || compared < inputs/10 {
		t.Errorf("only %d of %d objects were compared in a form", compared, inputs)
	}
}

// editedPart is a number of inputs of one version. Its random numbers are its own.
type editedPart struct {
	version *version
	inputs  int
	seed    int64
}

// editedParts divides n inputs among the versions that have tables.
func editedParts(n int) []editedPart {
	var known []*version
	for _, v := range versions() {
		if v.tables != nil {
			known = append(known, v)
		}
	}
	var parts []editedPart
	for left := n/len(known) + 1; left > 0; left -= maxPart {
		for _, v := range known {
			parts = append(parts, editedPart{version: v, inputs: min(left, maxPart), seed: *seedFlag<<16 + int64(len(parts))})
		}
	}
	return parts
}

// editedRun counts what its goroutines send.
type editedRun struct {
	t                *testing.T
	began            time.Time
	inputs, compared atomic.Int64
}

// logUntil logs once a minute, and at the end, how far the run is.
func (r *editedRun) logUntil(ended <-chan struct{}) {
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		state := "so far"
		select {
		case <-ended:
			state = "in all"
		case <-minute.C:
		}
		inputs := r.inputs.Load()
		r.t.Logf("seed %d: %d objects %s, compared in a form %d times, %.0f a second", *seedFlag, inputs, state, r.compared.Load(), float64(inputs)/time.Since(r.began).Seconds())
		if state == "in all" {
			return
		}
	}
}

// send sends the edited objects of a part.
func (r *editedRun) send(part editedPart) {
	v, source := part.version, rand.NewSource(part.seed)
	random, filler := rand.New(source), fuzzer.FuzzerFor(v.funcs, source, v.codecs)
	s := newEditedSender(r.t, v)
	for left := part.inputs; left > 0; left -= editsOfSeed {
		object := unwrap(r.t, v, v.random(r.t, filler, random.Intn(4) > 0))
		inputs, largest, before := min(left, editsOfSeed), maxGrowth*len(object), s.compared
		for range inputs {
			edited := object
			for range 1 + random.Intn(editsAtOnce) {
				edited = edit(nil, edited, random)
			}
			if equal := s.send(r.t, edited); equal && len(edited) <= largest && random.Intn(8) == 0 {
				object = edited
			}
		}
		r.inputs.Add(int64(inputs))
		r.compared.Add(s.compared - before)
		if s.lanes[0].proofs.Counts().Proven > maxKnown {
			s = newEditedSender(r.t, v)
		}
	}
}

// editedSender sends objects of one version in both forms.
type editedSender struct {
	version  *version
	lanes    []*lane
	compared int64
	// out and encoded are buffers.
	out     []byte
	encoded bytes.Buffer
}

func newEditedSender(t *testing.T, v *version) *editedSender {
	return &editedSender{version: v, lanes: newLanes(t, v, transcode.ObjectJSON, transcode.ObjectProtobuf)}
}

// send sends an object, given without its envelope. It reports whether the object was compared
// in all forms, and equal.
func (s *editedSender) send(t *testing.T, content []byte) (equal bool) {
	e := &entry.Entry{Key: "ns/name", Revision: revision, Value: wrap(t, s.version, content)}
	// Both forms are of one object, which encoders do not change.
	decode := sync.OnceValues(func() (runtime.Object, error) { return s.version.decode(e) })
	equal = true
	for _, l := range s.lanes {
		before := l.proofs.Counts()
		compared := false
		got, err := l.transcoder.Append(s.out[:0], e, func(dst []byte) ([]byte, error) {
			if c := l.proofs.Counts(); c.Normalized == before.Normalized && (c.Declined > before.Declined || c.Refuted > before.Refuted) {
				return dst, nil
			}
			obj, err := decode()
			if err != nil {
				return dst, err
			}
			s.encoded.Reset()
			if err := l.encoder.Encode(obj, &s.encoded); err != nil {
				return dst, err
			}
			compared = true
			return append(dst, s.encoded.Bytes()...), nil
		})
		s.out = got
		if compared {
			s.compared++
			if !bytes.Equal(got, s.encoded.Bytes()) {
				t.Errorf("%v: sent %q, want %q", l.version.kind, got, s.encoded.Bytes())
			}
		}
		equal = equal && compared && err == nil && l.proofs.Counts().Different == before.Different
		if l.alarm.text != "" {
			t.Errorf("%v: objects with one fingerprint were equal and different: %s: %x", l.version.kind, l.alarm.text, content)
			l.alarm.text = ""
		}
	}
	return equal
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

// splitFields splits a message into its fields. It returns nil if the bytes are no message.
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
