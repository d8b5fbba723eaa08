package storage

import (
	"bytes"
	"io"
	goruntime "runtime"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/wire/entry"
)

// sharedObjects has the decoded objects that watchers of a Store are sending. So an event is
// decoded once for all of them, and encoded once in each encoding.
//
// It keeps no object alive: its pointers are weak. So it needs no bound and no
// eviction, and an object goes with the first garbage collection after the last
// watcher has sent it. The cost is one cleanup of the runtime for each object, and a
// second decoding for a watcher that comes after the collection.
//
// The zero value is ready. It is safe for use by several goroutines.
type sharedObjects struct {
	mu struct {
		sync.Mutex
		objects map[entryVersion]weak.Pointer[sharedObject]
	}
}

// entryVersion identifies an object as an event sends it. An entry is sent at its own
// revision, and a deleted one at the revision of the deletion.
type entryVersion struct {
	entry    *entry.Entry
	revision int64
}

// get returns the shared object of a version, and the error of its decoding. The first
// caller decodes, and others wait. decode is not called while the lock is held.
func (s *sharedObjects) get(v entryVersion, decode func() (runtime.Object, error)) (*sharedObject, error) {
	shared := s.find(v)
	shared.once.Do(func() { shared.obj, shared.err = decode() })
	return shared, shared.err
}

// find returns the shared object of a version, which may not be decoded yet.
func (s *sharedObjects) find(v entryVersion) *sharedObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared := s.mu.objects[v].Value(); shared != nil {
		return shared
	}
	shared := &sharedObject{}
	pointer := weak.Make(shared)
	if s.mu.objects == nil {
		s.mu.objects = map[entryVersion]weak.Pointer[sharedObject]{}
	}
	s.mu.objects[v] = pointer
	goruntime.AddCleanup(shared, func(v entryVersion) { s.forget(v, pointer) }, v)
	return shared
}

// forget removes an object that was collected, unless another object has taken its place.
func (s *sharedObjects) forget(v entryVersion, pointer weak.Pointer[sharedObject]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.objects[v] == pointer {
		delete(s.mu.objects, v)
	}
}

// sharedObject is an object that many watchers send. It implements
// runtime.CacheableObject, so Kubernetes' watch handler encodes it once for each
// encoding. It is never changed; GetObject returns a copy.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.cachingObject; compare at each upgrade.
type sharedObject struct {
	// once guards the decoding, which sets obj or err.
	once sync.Once
	obj  runtime.Object
	err  error

	mu struct {
		sync.Mutex
		encodings map[runtime.Identifier]*encoding
	}
}

// encoding is the bytes of an object in one encoding. once guards the other fields.
type encoding struct {
	once  sync.Once
	bytes []byte
	err   error
}

var (
	_ runtime.CacheableObject   = (*sharedObject)(nil)
	_ metav1.ObjectMetaAccessor = (*sharedObject)(nil)
)

// CacheEncode implements runtime.CacheableObject.
func (o *sharedObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	result := o.encodingOf(id)
	result.once.Do(func() {
		var buf bytes.Buffer
		// A copy is encoded, since encoders may set the kind on the object.
		result.err = encode(o.GetObject(), &buf)
		result.bytes = buf.Bytes()
	})
	if result.err != nil {
		return result.err
	}
	_, err := w.Write(result.bytes)
	return err
}

// encodingOf returns the object's bytes in an encoding, which may not be encoded yet.
func (o *sharedObject) encodingOf(id runtime.Identifier) *encoding {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.encodings == nil {
		o.mu.encodings = map[runtime.Identifier]*encoding{}
	}
	result := o.mu.encodings[id]
	if result == nil {
		result = &encoding{}
		o.mu.encodings[id] = result
	}
	return result
}

// GetObject implements runtime.CacheableObject.
func (o *sharedObject) GetObject() runtime.Object { return o.obj.DeepCopyObject() }

// DeepCopyObject implements runtime.Object.
func (o *sharedObject) DeepCopyObject() runtime.Object { return o.obj.DeepCopyObject() }

// GetObjectKind implements runtime.Object.
func (o *sharedObject) GetObjectKind() schema.ObjectKind { return o.obj.GetObjectKind() }

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (o *sharedObject) GetObjectMeta() metav1.Object {
	accessor, err := meta.Accessor(o.obj)
	if err != nil {
		return nil
	}
	return accessor
}
