package encode

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/sentobject"
)

// VerbatimConfig describes a verbatim form.
type VerbatimConfig struct {
	// Name is Config.Name.
	Name string
	// Format is how the other server has written objects.
	Format sentobject.Format
	// Watch makes a form of frames.
	Watch bool
	// EmptyList returns what the other server answers to a list without objects, or nil if
	// that is not known. Forms of frames do not call it.
	EmptyList func() []byte
	// Budget and RecentFrames mean the same as in Config.
	Budget       *Budget
	RecentFrames *RecentFrames
}

// NewVerbatimForm makes a form that sends objects as another API server has sent them, byte
// for byte. The server may be of another version than the types that are compiled in, so
// nothing is decoded. A field that only the server knows stays, and no default comes in.
//
// An entry has the object as it is sent alone. What surrounds objects is the other server's
// too: its empty list, and its bookmarks, which callers hand in as runtime.Unknown. Only
// resource versions are written here. Lists of such forms have no pages and no shards.
func NewVerbatimForm(cfg VerbatimConfig) *Form {
	f := &Form{verbatim: &cfg, cfg: Config{Name: cfg.Name, Encoder: rawEncoder{}, Budget: cfg.Budget, RecentFrames: cfg.RecentFrames, List: cfg.list}}
	f.cfg.Framing, f.cfg.MediaType = JSON, runtime.ContentTypeJSON
	switch protobuf := cfg.Format == sentobject.Protobuf; {
	case protobuf && cfg.Watch:
		f.cfg.Framing, f.cfg.MediaType = WatchProtobuf, runtime.ContentTypeProtobuf+";stream=watch"
	case protobuf:
		f.cfg.Framing, f.cfg.MediaType = Protobuf, runtime.ContentTypeProtobuf
	case cfg.Watch:
		f.cfg.Framing = WatchJSON
	}
	return f
}

// list implements Config.List. It returns the other server's empty list with the revision of m.
func (cfg *VerbatimConfig) list(m Meta, _ ...runtime.Object) (runtime.Object, error) {
	if m.Continue != "" || m.Remaining != nil || m.Shard != "" {
		return nil, fmt.Errorf("%w: a page or a shard", ErrShape)
	}
	empty, ok := sentobject.ReadEmptyList(cfg.Format, cfg.EmptyList())
	if !ok {
		return nil, fmt.Errorf("%w: the other server's empty list is not known", ErrShape)
	}
	return &runtime.Unknown{Raw: empty.Append(nil, m.ResourceVersion)}, nil
}

// VerbatimObject makes an object that verbatim forms write: what the other server has
// sent, with revision as its resource version. It is for Stream.Signal and
// AppendBookmark.
func VerbatimObject(format sentobject.Format, sent []byte, revision int64) (runtime.Object, error) {
	obj, ok := sentobject.Read(format, sent)
	if !ok {
		return nil, fmt.Errorf("%w: no object of the other server", ErrShape)
	}
	return &runtime.Unknown{Raw: obj.Append(nil, revision)}, nil
}

// append appends an entry as it was sent, with the entry's revision: as an item of a list, or
// else as it is sent alone.
func (cfg *VerbatimConfig) append(dst []byte, e *entry.Entry, item bool) ([]byte, error) {
	err := e.Read(func(value []byte) error {
		sent, ok := sentobject.Read(cfg.Format, value)
		switch {
		case !ok:
			return fmt.Errorf("%w: %s is not as an API server sends it", ErrShape, e.Key)
		case item:
			dst = sent.AppendItem(dst, e.Revision)
		default:
			dst = sent.Append(dst, e.Revision)
		}
		return nil
	})
	return dst, entryError(e, err)
}

// object returns an entry as a GET answers it.
func (cfg *VerbatimConfig) object(e *entry.Entry) ([]byte, error) {
	object, err := cfg.append(nil, e, false)
	if cfg.Format == sentobject.JSON {
		object = append(object, '\n')
	}
	return object, err
}

// rawEncoder writes the bytes of a runtime.Unknown.
type rawEncoder struct{}

var _ runtime.Encoder = rawEncoder{}

// Encode implements runtime.Encoder.
func (rawEncoder) Encode(obj runtime.Object, w io.Writer) error {
	raw, ok := obj.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("%w: a %T has no bytes of another server", ErrShape, obj)
	}
	_, err := w.Write(raw.Raw)
	return err
}

// Identifier implements runtime.Encoder.
func (rawEncoder) Identifier() runtime.Identifier { return "raw" }
