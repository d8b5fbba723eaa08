package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/millrace/millrace/internal/account/panics"
)

// This file is the guard at the decoder: a stored object whose decoding or decryption panics
// is an object with an error. Kubernetes' own store of the resource has the same guard, since
// it answers the reads of such objects. It decodes in goroutines of its own, where a panic
// would end the process.

// guardedDecoder returns panics of a decoder as errors. panics returns what counts them; it is
// called when there is a panic.
type guardedDecoder struct {
	etcd3.Decoder
	panics func() *panics.Counter
}

// Decode implements etcd3.Decoder.
func (d guardedDecoder) Decode(stored []byte, out runtime.Object, revision int64) (err error) {
	defer d.recoverTo(&err)
	return d.Decoder.Decode(stored, out, revision)
}

// DecodeListItem implements etcd3.Decoder.
func (d guardedDecoder) DecodeListItem(ctx context.Context, stored []byte, revision uint64, newItem func() runtime.Object) (obj runtime.Object, err error) {
	defer d.recoverTo(&err)
	return d.Decoder.DecodeListItem(ctx, stored, revision, newItem)
}

// recoverTo recovers from a panic, and sets *err to the error for it. It must be deferred
// itself.
func (d guardedDecoder) recoverTo(err *error) {
	if failure := recover(); failure != nil {
		*err = d.panics().Recovered(panics.Decode, failure)
	}
}

// guardedTransformer returns panics of a transformer as errors.
type guardedTransformer struct {
	value.Transformer
	panics func() *panics.Counter
}

// TransformFromStorage implements value.Transformer.
func (t guardedTransformer) TransformFromStorage(ctx context.Context, stored []byte, key value.Context) (plain []byte, stale bool, err error) {
	err = t.panics().Guard(panics.Decode, func() (err error) {
		plain, stale, err = t.Transformer.TransformFromStorage(ctx, stored, key)
		return err
	})
	return plain, stale, err
}
