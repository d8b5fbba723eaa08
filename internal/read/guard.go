package read

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
)

// This file is the guard at the encoder: an object whose conversion or encoding panics is one
// whose encoder fails. So a GET or LIST of it is passed on, and a watch gets an ERROR event.

// guardedEncoder returns panics of an encoder as errors.
type guardedEncoder struct {
	runtime.Encoder
	panics *resource.Panics
}

// Encode implements runtime.Encoder.
func (e guardedEncoder) Encode(obj runtime.Object, w io.Writer) error {
	return e.panics.Guard(resource.PanicEncode, func() error { return e.Encoder.Encode(obj, w) })
}

// guard puts guards around the foreign code of a form's configuration.
func (r *Route) guard(cfg *encode.Config) {
	panics := r.cfg.Shared.Panics
	cfg.Encoder = guardedEncoder{cfg.Encoder, panics}
	if list := cfg.List; list != nil {
		cfg.List = func(m encode.Meta, objs ...runtime.Object) (made runtime.Object, err error) {
			err = panics.Guard(resource.PanicEncode, func() (err error) {
				made, err = list(m, objs...)
				return err
			})
			return made, err
		}
	}
	if object := cfg.Object; object != nil {
		cfg.Object = func(obj runtime.Object) (made runtime.Object, err error) {
			err = panics.Guard(resource.PanicEncode, func() (err error) {
				made, err = object(obj)
				return err
			})
			return made, err
		}
	}
	if row := cfg.Row; row != nil {
		cfg.Row = func(e *resource.Entry) (made encode.Row, err error) {
			err = panics.Guard(resource.PanicEncode, func() (err error) {
				made, err = row(e)
				return err
			})
			return made, err
		}
	}
}
