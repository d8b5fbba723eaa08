package read

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/apihelpers"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/tablerow"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// newForm makes a form. Without an error it returns nil for a form that the tier leaves to
// Kubernetes.
func (r *Route) newForm(key formKey) (*encode.Form, error) {
	if r.isVerbatim() {
		return r.newVerbatimForm(key), nil
	}
	framing, ok := key.framing()
	if !ok || key.as == kindTable && r.cfg.Table == nil {
		return nil, nil
	}
	serializer, gv := r.cfg.Serializer, r.cfg.Kind.GroupVersion()
	if key.as != "" {
		serializer, gv = apihelpers.GetMetaInternalVersionCodecs(), schema.GroupVersion{Group: metav1.GroupName, Version: key.version}
	}
	info, ok := runtime.SerializerInfoForMediaType(serializer.SupportedMediaTypes(), key.mediaType)
	if !ok {
		return nil, nil
	}
	chosen := runtime.Encoder(info.Serializer)
	if key.pretty {
		chosen = info.PrettySerializer
	}
	cfg := encode.Config{
		Name:         r.formName(key),
		Decode:       r.cfg.Objects.Decode,
		List:         encode.PlainList(r.cfg.Objects.NewList),
		Encoder:      serializer.EncoderForVersion(chosen, gv),
		Framing:      framing,
		MediaType:    key.mediaType,
		Budget:       r.cfg.Shared.Budget,
		RecentFrames: r.cfg.Shared.RecentFrames,
		Transcoder:   r.transcoder(key),
	}
	switch key.as {
	case kindTable:
		t := &table{route: r, version: gv, options: metav1.TableOptions{IncludeObject: key.include, NoHeaders: key.noColumns}}
		t.rows = tablerow.NewBuilder(t.render)
		if cfg.List, cfg.Row = t.list, t.row; key.watch {
			cfg.Row, cfg.Object, cfg.Volatile = nil, t.object, true
		}
	case kindMetadata, kindList:
		cfg.List, cfg.Object = metadataList(gv), metadataObject(gv)
	}
	r.guard(&cfg)
	if key.watch {
		return r.newWatchForm(cfg)
	}
	f, err := encode.NewForm(cfg)
	if err != nil || key.as == kindTable {
		return f, err
	}
	obj, err := r.model()
	if err != nil {
		return nil, err
	}
	return f, f.SetModel(obj)
}

// newWatchForm makes a form of frames. It returns nil for a media type without frames.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.watchEncoder.doEncode; compare at each upgrade.
func (r *Route) newWatchForm(cfg encode.Config) (*encode.Form, error) {
	info, ok := runtime.SerializerInfoForMediaType(r.cfg.Serializer.SupportedMediaTypes(), cfg.MediaType)
	if !ok || info.StreamSerializer == nil || info.StreamSerializer.Framer == nil {
		return nil, nil
	}
	cfg.Events = r.cfg.Serializer.EncoderForVersion(info.StreamSerializer.Serializer, r.cfg.Kind.GroupVersion())
	cfg.Framer = info.StreamSerializer.Framer
	if cfg.MediaType != runtime.ContentTypeJSON {
		cfg.MediaType += ";stream=watch"
	}
	return encode.NewForm(cfg)
}

// transcoder makes the transcoder of a form. It returns nil for a form that has none.
func (r *Route) transcoder(key formKey) *transcode.Transcoder {
	kind := r.cfg.Transcode
	if kind == nil || r.cfg.Shared.Proofs == nil || key.as == kindTable || key.pretty {
		return nil
	}
	if key.as != "" {
		var err error
		if kind, err = kind.Metadata(key.version); err != nil {
			return nil
		}
	}
	target := transcode.ItemJSON
	switch protobuf := key.mediaType == runtime.ContentTypeProtobuf; {
	case protobuf && key.watch:
		target = transcode.ObjectProtobuf
	case protobuf:
		target = transcode.ItemProtobuf
	case key.watch:
		target = transcode.ObjectJSON
	}
	return transcode.New(kind, target, r.name+" "+r.formName(key), r.cfg.Shared.Proofs, r.normalizer)
}

// formName names a form of the route in logs and reports, as in "v1 json".
func (r *Route) formName(key formKey) string { return r.cfg.Resource.Version + " " + key.name() }

// name names the form within its version.
func (key formKey) name() string {
	words := []string{"json"}
	if key.mediaType == runtime.ContentTypeProtobuf {
		words[0] = "protobuf"
	}
	if key.pretty {
		words = append(words, "pretty")
	}
	switch key.as {
	case kindTable:
		words = append(words, "table")
	case kindMetadata, kindList:
		words = append(words, "metadata")
	}
	if key.watch {
		words = append(words, "watch")
	}
	return strings.Join(words, " ")
}

// framing returns how the form joins items. It returns false for a form that the tier
// leaves to Kubernetes.
func (key formKey) framing() (encode.Framing, bool) {
	switch {
	case key.watch && key.mediaType == runtime.ContentTypeProtobuf && key.as != kindTable:
		return encode.WatchProtobuf, true
	case key.watch && key.mediaType == runtime.ContentTypeJSON:
		return encode.WatchJSON, true
	case key.watch:
		return 0, false
	case key.mediaType == runtime.ContentTypeProtobuf && key.as != kindTable:
		return encode.Protobuf, true
	case key.mediaType != runtime.ContentTypeJSON:
		return 0, false
	case key.as == kindTable:
		return encode.TableJSON, !key.pretty
	case key.pretty:
		return encode.PrettyJSON, true
	}
	return encode.JSON, true
}

// model makes an object of the route's kind, for encode.Form.SetModel.
func (r *Route) model() (runtime.Object, error) {
	list := r.cfg.Objects.NewList()
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, fmt.Errorf("find items: %w", err)
	}
	obj, ok := reflect.New(reflect.TypeOf(items).Elem().Elem()).Interface().(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%w: items of %T", encode.ErrShape, list)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("access metadata: %w", err)
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		u.GetObjectKind().SetGroupVersionKind(r.cfg.Kind)
	}
	accessor.SetName("model")
	return obj, nil
}

// metadataObject returns a function that makes the PartialObjectMetadata of an object.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.asPartialObjectMetadata; compare at each upgrade.
func metadataObject(gv schema.GroupVersion) func(runtime.Object) (runtime.Object, error) {
	return func(obj runtime.Object) (runtime.Object, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, fmt.Errorf("access metadata: %w", err)
		}
		partial := meta.AsPartialObjectMetadata(m)
		partial.GetObjectKind().SetGroupVersionKind(gv.WithKind(kindMetadata))
		return partial, nil
	}
}

// metadataList returns a function that makes a PartialObjectMetadataList. Without objects
// its items are null, and it does not say what shard it is, as in Kubernetes.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.asPartialObjectMetadataList; compare at each upgrade.
func metadataList(gv schema.GroupVersion) func(encode.Meta, ...runtime.Object) (runtime.Object, error) {
	partial := metadataObject(gv)
	return func(m encode.Meta, objs ...runtime.Object) (runtime.Object, error) {
		var items []metav1.PartialObjectMetadata
		for _, obj := range objs {
			p, err := partial(obj)
			if err != nil {
				return nil, err
			}
			items = append(items, *p.(*metav1.PartialObjectMetadata))
		}
		var list runtime.Object = &metav1.PartialObjectMetadataList{Items: items}
		if gv == metav1beta1.SchemeGroupVersion {
			list = &metav1beta1.PartialObjectMetadataList{Items: items}
		}
		m.Shard = ""
		return list, m.SetMeta(list)
	}
}

// table makes tables of a route's objects. It is the Config.List, Row and Object of forms
// of tables.
type table struct {
	route   *Route
	version schema.GroupVersion
	options metav1.TableOptions
	// rows makes the templates of rows.
	rows *tablerow.Builder
}

// list makes the table of a list. Forms only use it for lists without objects, to learn
// what surrounds the rows.
func (t *table) list(m encode.Meta, objs ...runtime.Object) (runtime.Object, error) {
	list, err := encode.PlainList(t.route.cfg.Objects.NewList)(m, objs...)
	if err != nil {
		return nil, err
	}
	return t.convert(list)
}

// convert makes the table of an object or a list.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.asTable; compare at each upgrade.
func (t *table) convert(obj runtime.Object) (*metav1.Table, error) {
	options := t.options
	made, err := t.route.cfg.Table.ConvertToTable(context.Background(), obj, &options)
	if err != nil {
		return nil, fmt.Errorf("make table: %w", err)
	}
	return made, nil
}

// errRows says that the printer made no row of an object, or several.
var errRows = errors.New("an object did not make one row")

// row makes an object's row. It fails if a cell has an age that cannot be told apart from
// its text.
func (t *table) row(e *entry.Entry) (encode.Row, error) {
	obj, err := t.route.cfg.Objects.Decode(e)
	if err != nil {
		return nil, err
	}
	made, err := t.rows.Build(obj)
	if err != nil {
		return nil, err // A nil *Template in an interface would not be nil.
	}
	return made, nil
}

// render makes an object's row as it reads now.
func (t *table) render(obj runtime.Object) (metav1.TableRow, error) {
	made, err := t.convert(obj)
	if err != nil {
		return metav1.TableRow{}, err
	}
	if len(made.Rows) != 1 {
		return metav1.TableRow{}, errRows
	}
	r := made.Rows[0]
	r.Object.Object, err = t.include(r.Object.Object)
	return r, err
}

// include returns the part of an object that its row holds. The metadata of a bookmark
// that ends the initial events is never left out, because clients look for its
// annotation.
func (t *table) include(obj runtime.Object) (runtime.Object, error) {
	switch t.options.IncludeObject {
	case metav1.IncludeObject:
		return t.route.cfg.Convertor.ConvertToVersion(obj, t.route.cfg.Kind.GroupVersion())
	case metav1.IncludeNone:
		if end, err := storage.HasInitialEventsEndBookmarkAnnotation(obj); err != nil || !end {
			return nil, err
		}
	}
	return metadataObject(t.version)(obj)
}

// object makes the table of one object, for a frame of a watch.
func (t *table) object(obj runtime.Object) (runtime.Object, error) {
	made, err := t.convert(obj)
	if err != nil {
		return nil, err
	}
	for i := range made.Rows {
		r := &made.Rows[i]
		if r.Object.Object, err = t.include(r.Object.Object); err != nil {
			return nil, err
		}
	}
	return made, nil
}
