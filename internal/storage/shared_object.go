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

	"github.com/millrace/millrace/internal/resource"
)

// sharedObjects lets watchers that one event reaches decode and encode it once. It
// holds nothing: what no watcher is busy with any more goes with the next
// garbage collection.
type sharedObjects struct {
	mu struct {
		sync.Mutex
		objects map[entryVersion]weak.Pointer[sharedObject]
	}
}

// entryVersion is an entry as an event shows it: the last version of a deleted
// object has the revision of the deletion.
type entryVersion struct {
	entry    *resource.Entry
	revision int64
}

// get returns the shared object of a version. decode is called once for it.
func (s *sharedObjects) get(v entryVersion, decode func() (runtime.Object, error)) (*sharedObject, error) {
	shared := s.find(v)
	shared.once.Do(func() { shared.obj, shared.err = decode() })
	return shared, shared.err
}

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

func (s *sharedObjects) forget(v entryVersion, pointer weak.Pointer[sharedObject]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.objects[v] == pointer {
		delete(s.mu.objects, v)
	}
}

// sharedObject is an object that many watchers send. It implements
// runtime.CacheableObject, which Kubernetes' watch handler encodes once for each
// encoding. It is read-only: who wants to change it takes a copy.
type sharedObject struct {
	once sync.Once
	obj  runtime.Object
	err  error

	mu struct {
		sync.Mutex
		encoded map[runtime.Identifier]*encoding
	}
}

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
		// Encoders may set the kind on what they encode.
		result.err = encode(o.GetObject(), &buf)
		result.bytes = buf.Bytes()
	})
	if result.err != nil {
		return result.err
	}
	_, err := w.Write(result.bytes)
	return err
}

func (o *sharedObject) encodingOf(id runtime.Identifier) *encoding {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.encoded == nil {
		o.mu.encoded = map[runtime.Identifier]*encoding{}
	}
	result := o.mu.encoded[id]
	if result == nil {
		result = &encoding{}
		o.mu.encoded[id] = result
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
