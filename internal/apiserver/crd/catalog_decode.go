package crd

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/apiserver/crd/definitioncodec"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// This file decodes definitions, in whole or as rows or outlines. Except for FullOf and
// StoredOf, it reads the newest snapshot of the cache, which may be newer than the rows of
// the Catalog.

// Full decodes the newest state of a definition, which may be newer than its row. The
// error is a NotFound if there is none. The caller owns the result.
func (c *Catalog) Full(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	e := c.store.Resource().Snapshot().Get(name)
	if e == nil {
		return nil, definitionNotFound(name)
	}
	return c.convert(e, c.decodeInternal)
}

// outlineWithRow is Full with the row of the same state, and without decoded schemas: the
// caller must not read them.
func (c *Catalog) outlineWithRow(name string) (*apiextensionsv1.CustomResourceDefinition, *Definition, error) {
	e := c.store.Resource().Snapshot().Get(name)
	if e == nil {
		return nil, nil, definitionNotFound(name)
	}
	row, err := c.rowOf(e)
	if err != nil {
		return nil, nil, err
	}
	outline, err := c.convert(e, c.decodeOutline)
	return outline, row, err
}

// rowOf returns the row of a stored definition.
func (c *Catalog) rowOf(e *entry.Entry) (*Definition, error) {
	if row := c.Get(e.Key); row != nil && row.Revision == e.Revision {
		return row, nil
	}
	return c.readRow(e, interner{})
}

// FullOf decodes a definition in the state that a row describes, or in another one that is
// served in the same way. The error is ErrChanged if the state is no longer known. The
// caller owns the result.
func (c *Catalog) FullOf(d *Definition) (*apiextensionsv1.CustomResourceDefinition, error) {
	e, err := c.entryOf(d)
	if err != nil {
		return nil, err
	}
	return c.convert(e, c.decodeInternal)
}

// StoredOf calls use with a definition as it is stored, in the state that FullOf decodes. The
// bytes are valid until use returns. The error is ErrChanged if the state is no longer known,
// an error for bytes that only Kubernetes can read, or the error of use.
func (c *Catalog) StoredOf(d *Definition, use func(stored []byte) error) error {
	e, err := c.entryOf(d)
	if err != nil {
		return err
	}
	if e.Opaque() {
		return fmt.Errorf("read definition %s: not plain", d.Name)
	}
	return e.Read(use)
}

// entryOf returns the entry of a state that is served as a row says. The cache is often ahead
// of the row. Then the entry comes out of the event log, which keeps replaced entries for some
// minutes. The error is ErrChanged if the log no longer has the entry either.
func (c *Catalog) entryOf(d *Definition) (*entry.Entry, error) {
	var unreadable error
	if e := c.store.Resource().Snapshot().Get(d.Name); e != nil {
		var newest *Definition
		if newest, unreadable = c.rowOf(e); unreadable == nil && newest.servedLike(d) {
			return e, nil
		}
	}
	if e := c.replaced(d); e != nil {
		return e, nil
	}
	if unreadable != nil {
		return nil, unreadable
	}
	return nil, ErrChanged
}

// replaced returns the entry that a row was read from, if the event log has that entry as the
// state before a change. Otherwise it returns nil.
func (c *Catalog) replaced(d *Definition) *entry.Entry {
	log, buf := c.store.Resource().Log(), make([]cache.Event, catalogBatch)
	at, oldest, err := log.Since(d.Revision)
	if err != nil {
		at, _, err = log.Since(oldest)
	}
	for err == nil {
		var n int
		n, at, _, err = log.Read(at, buf)
		if n == 0 {
			return nil
		}
		for i := range buf[:n] {
			if e := buf[i].Previous; e != nil && e.Revision == d.Revision && e.Key == d.Name {
				return e
			}
		}
	}
	return nil
}

func definitionNotFound(name string) error {
	return apierrors.NewNotFound(apiextensions.Resource("customresourcedefinitions"), name)
}

// size returns the bytes of a stored definition. It returns 0 if there is none.
func (c *Catalog) size(name string) int64 {
	if e := c.store.Resource().Snapshot().Get(name); e != nil {
		return int64(e.Size())
	}
	return 0
}

func (c *Catalog) convert(e *entry.Entry, decode func(*entry.Entry) (runtime.Object, error)) (*apiextensionsv1.CustomResourceDefinition, error) {
	stored, err := decode(e)
	if err != nil {
		return nil, err
	}
	full := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsapiserver.Scheme.Convert(stored, full, nil); err != nil {
		return nil, fmt.Errorf("convert definition %s: %w", e.Key, err)
	}
	full.ResourceVersion = strconv.FormatInt(e.Revision, 10)
	return full, checkName(e, full.Name)
}

func (c *Catalog) decodeInternal(e *entry.Entry) (runtime.Object, error) {
	err := e.Err
	var stored runtime.Object
	if err == nil {
		stored, err = c.store.Decode(e)
	}
	if err != nil {
		return nil, fmt.Errorf("read definition %s: %w", e.Key, err)
	}
	return stored, nil
}

// outlines decodes definitions as outlines.
var outlines = definitioncodec.OutlineCodec{Codec: apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion)}

func (c *Catalog) decodeOutline(e *entry.Entry) (stored runtime.Object, err error) {
	if e.Opaque() {
		return c.decodeInternal(e)
	}
	stored = &apiextensions.CustomResourceDefinition{}
	err = e.Read(func(value []byte) error {
		_, _, err := outlines.Decode(value, nil, stored)
		return err
	})
	if err != nil {
		return c.decodeInternal(e) // its error is Kubernetes'
	}
	return stored, nil
}

// readRow reads a row out of a stored definition. If another version of Kubernetes stored
// it in a way that cannot be read like that, it is decoded and encoded first.
func (c *Catalog) readRow(e *entry.Entry, share interner) (row *Definition, err error) {
	if e.Err == nil {
		err = e.Read(func(stored []byte) error {
			row, err = share.row(stored, e.Revision)
			return err
		})
		if err == nil {
			return row, checkName(e, row.Name)
		}
	}
	full, err := c.decodeInternal(e)
	if err != nil {
		return nil, err
	}
	stored, err := runtime.Encode(apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), full)
	if err != nil {
		return nil, fmt.Errorf("encode definition %s: %w", e.Key, err)
	}
	if row, err = share.row(stored, e.Revision); err != nil {
		return nil, fmt.Errorf("read definition %s: %w", e.Key, err)
	}
	return row, checkName(e, row.Name)
}

// errOtherName says that a definition is stored under a key that is not its name.
var errOtherName = errors.New("its key is not its name: delete the key, and create the definition by the API")

func checkName(e *entry.Entry, name string) error {
	if name != e.Key {
		return fmt.Errorf("read definition %s named %q: %w", e.Key, name, errOtherName)
	}
	return nil
}
