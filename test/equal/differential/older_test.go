package differential

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

const (
	olderVariable = "MILLRACE_OLDER"
	// defaultOlder is how many percent of the objects are older ones, unless olderVariable sets
	// another number.
	defaultOlder = 20
	// exploredOfKind is how many objects of a kind are searched for fields that come back. In
	// later ones these are looked for.
	exploredOfKind = 8
	envelope       = "k8s\x00"
)

// olderObjects stores objects anew as an older version would have stored them that knew no
// defaults: without any field that decoding puts back.
type olderObjects struct {
	etcd    *clientv3.Client
	percent int

	mu struct {
		sync.Mutex
		random *rand.Rand
		kinds  map[schema.GroupVersionKind]*olderKind
		// seen is the newest revision whose objects were looked at, and stored how many were
		// stored anew.
		seen   int64
		stored int
	}
}

// olderKind has the fields of a kind that come back.
type olderKind struct {
	explored int
	comeBack map[string]bool
}

func newOlderObjects(t *testing.T, etcd *clientv3.Client, seed uint64) *olderObjects {
	t.Helper()
	o := &olderObjects{etcd: etcd, percent: defaultOlder}
	if given := os.Getenv(olderVariable); given != "" {
		var err error
		if o.percent, err = strconv.Atoi(given); err != nil {
			t.Fatalf("%s: %v", olderVariable, err)
		}
	}
	o.mu.random, o.mu.kinds = rand.New(rand.NewPCG(seed, 0)), map[schema.GroupVersionKind]*olderKind{}
	return o
}

// storeSome stores a share of all objects anew.
func (o *olderObjects) storeSome(t *testing.T) {
	t.Helper()
	if err := o.storeAnew(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d objects are stored as an older version would", o.mu.stored)
}

// areNormalized checks that our server has normalized older objects.
func (o *olderObjects) areNormalized(t *testing.T, f *fixture) {
	const normalized = `millrace_transcode_objects_total{outcome="normalized"}`
	var lists []request
	for _, k := range f.kinds {
		if k.lists && k.stored() {
			lists = append(lists, request{path: k.listPath("")})
		}
	}
	f.agree(t, lists)
	if n := f.metrics(t, normalized)[normalized]; o.percent > 0 && int(n) < o.mu.stored/4 {
		t.Errorf("%v of %d objects of older versions were normalized", n, o.mu.stored)
	}
}

// storeAnew stores some of the objects that were written since the last call.
func (o *olderObjects) storeAnew(ctx context.Context) error {
	if o == nil || o.percent == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	written, err := o.etcd.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithMinModRev(o.mu.seen+1))
	if err != nil {
		return err
	}
	o.mu.seen = written.Header.Revision
	for _, kv := range written.Kvs {
		if o.mu.random.IntN(100) >= o.percent {
			continue
		}
		older := o.without(kv.Value)
		if older == nil {
			continue
		}
		// An object that was written meanwhile stays.
		stored, err := o.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)).
			Then(clientv3.OpPut(string(kv.Key), string(older), clientv3.WithIgnoreLease())).Commit()
		if err != nil {
			return err
		}
		if stored.Succeeded {
			o.mu.stored++
			o.mu.seen = stored.Header.Revision
		}
	}
	return nil
}

// without returns a stored object without the fields that come back, nil if there are none.
func (o *olderObjects) without(stored []byte) []byte {
	var unknown runtime.Unknown
	if !bytes.HasPrefix(stored, []byte(envelope)) || unknown.Unmarshal(stored[len(envelope):]) != nil {
		return nil
	}
	gvk := schema.FromAPIVersionAndKind(unknown.APIVersion, unknown.Kind)
	isSame := func(without map[string]bool) (older []byte, same bool) {
		changed := unknown
		changed.Raw = drop(unknown.Raw, "", without)
		encoded, err := changed.Marshal()
		if err != nil {
			return nil, false
		}
		older = append([]byte(envelope), encoded...)
		again, err := storedAnew(older, gvk)
		return older, err == nil && bytes.Equal(again, stored)
	}
	if _, same := isSame(nil); !same {
		return nil
	}
	k := o.mu.kinds[gvk]
	if k == nil {
		k = &olderKind{comeBack: map[string]bool{}}
		o.mu.kinds[gvk] = k
	}
	candidates := pathsOf(unknown.Raw, "")
	if k.explored++; k.explored > exploredOfKind {
		candidates = slices.DeleteFunc(candidates, func(path string) bool { return !k.comeBack[path] })
	}
	var older []byte
	gone := map[string]bool{}
	for _, path := range candidates {
		gone[path] = true
		if made, same := isSame(gone); same && len(made) < len(stored) {
			older, k.comeBack[path] = made, true
			continue
		}
		delete(gone, path)
	}
	return older
}

// storedAnew decodes a stored object and encodes it for storage.
func storedAnew(stored []byte, gvk schema.GroupVersionKind) ([]byte, error) {
	internal := schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(internal), stored)
	if err != nil {
		return nil, err
	}
	info, _ := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return runtime.Encode(legacyscheme.Codecs.EncoderForVersion(info.Serializer, gvk.GroupVersion()), obj)
}

// metadataPath is the path of an object's metadata, in which no field comes back.
const metadataPath = "/1"

// pathsOf returns the paths of all fields of a message, numbers between slashes, each once and
// before those that are in it.
func pathsOf(message []byte, above string) (paths []string) {
	add := func(path string) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for number, field := range fieldsOf(message) {
		path := fmt.Sprint(above, "/", number)
		if path == metadataPath {
			continue
		}
		add(path)
		for _, inside := range pathsOf(field.content, path) {
			add(inside)
		}
	}
	return paths
}

// drop returns a message without the fields of some paths.
func drop(message []byte, above string, gone map[string]bool) []byte {
	var left []byte
	for number, field := range fieldsOf(message) {
		path := fmt.Sprint(above, "/", number)
		if gone[path] {
			continue
		}
		if field.content == nil || !anyBelow(gone, path) {
			left = append(left, field.whole...)
			continue
		}
		left = protowire.AppendTag(left, number, protowire.BytesType)
		left = protowire.AppendBytes(left, drop(field.content, path, gone))
	}
	return left
}

func anyBelow(paths map[string]bool, above string) bool {
	for path := range paths {
		if strings.HasPrefix(path, above+"/") {
			return true
		}
	}
	return false
}

// messageField is a field of a message. content is what a field of bytes has, which may be a
// message.
type messageField struct{ whole, content []byte }

// fieldsOf yields the fields of a message: none if it is no message.
func fieldsOf(message []byte) iter.Seq2[protowire.Number, messageField] {
	return func(yield func(protowire.Number, messageField) bool) {
		for rest := message; len(rest) > 0; {
			_, _, n := protowire.ConsumeField(rest)
			if n < 0 {
				return
			}
			rest = rest[n:]
		}
		for rest := message; len(rest) > 0; {
			number, kind, n := protowire.ConsumeField(rest)
			field := messageField{whole: rest[:n]}
			if kind == protowire.BytesType {
				_, _, tag := protowire.ConsumeTag(rest)
				field.content, _ = protowire.ConsumeBytes(rest[tag:])
			}
			if !yield(number, field) {
				return
			}
			rest = rest[n:]
		}
	}
}
