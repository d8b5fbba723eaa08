package read

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// This file is the guard at the encoder: an object whose conversion or encoding panics is one
// whose encoder fails. So a GET, or a LIST before its first byte, is passed on. A watch gets an
// ERROR event.

// guardedEncoder returns panics of an encoder as errors.
type guardedEncoder struct {
	runtime.Encoder
	panics *panics.Counter
}

// Encode implements runtime.Encoder.
func (e guardedEncoder) Encode(obj runtime.Object, w io.Writer) error {
	return e.panics.Guard(panics.Encode, func() error { return e.Encoder.Encode(obj, w) })
}

// guard puts guards around the foreign code of a form's configuration.
func (r *Route) guard(cfg *encode.Config) {
	counter := r.cfg.Shared.Panics
	cfg.Encoder = guardedEncoder{cfg.Encoder, counter}
	if list := cfg.List; list != nil {
		cfg.List = func(m encode.Meta, objs ...runtime.Object) (made runtime.Object, err error) {
			err = counter.Guard(panics.Encode, func() (err error) {
				made, err = list(m, objs...)
				return err
			})
			return made, err
		}
	}
	if object := cfg.Object; object != nil {
		cfg.Object = func(obj runtime.Object) (made runtime.Object, err error) {
			err = counter.Guard(panics.Encode, func() (err error) {
				made, err = object(obj)
				return err
			})
			return made, err
		}
	}
	if row := cfg.Row; row != nil {
		cfg.Row = func(e *entry.Entry) (made encode.Row, err error) {
			err = counter.Guard(panics.Encode, func() (err error) {
				made, err = row(e)
				return err
			})
			return made, err
		}
	}
}
