package encode

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/storedjson"
)

// VerbatimConfig describes a verbatim form.
type VerbatimConfig struct {
	// Name is Config.Name.
	Name string
	// Watch makes a form of frames.
	Watch bool
	// EmptyList returns what the other server answers to a list without objects. It is nil
	// if that is not known. Forms of frames do not call it.
	EmptyList func() []byte
	// Budget and RecentFrames are those of Config.
	Budget       *Budget
	RecentFrames *RecentFrames
}

// NewVerbatimForm makes a form that sends objects as JSON of another API server, byte for
// byte as that server has sent them. The server may be of another version than the types
// that are compiled in, so nothing is decoded: a field that only the server knows stays, and
// no default comes in.
//
// An entry has the object as it is sent alone. What surrounds objects is the other server's
// too: its empty list, and its bookmarks, which callers hand in as runtime.Unknown. Only
// resource versions are written here. Lists of such forms have no pages and no shards.
func NewVerbatimForm(cfg VerbatimConfig) *Form {
	f := &Form{verbatim: true, cfg: Config{
		Name: cfg.Name, MediaType: runtime.ContentTypeJSON, Framing: JSON, Encoder: rawEncoder{},
		Budget: cfg.Budget, RecentFrames: cfg.RecentFrames,
	}}
	if cfg.Watch {
		f.cfg.Framing = WatchJSON
		return f
	}
	f.cfg.List = func(m Meta, _ ...runtime.Object) (runtime.Object, error) { return verbatimList(cfg.EmptyList(), m) }
	return f
}

// verbatimList is an empty list of the other server with a revision.
func verbatimList(empty []byte, m Meta) (runtime.Object, error) {
	if m.Continue != "" || m.Remaining != nil || m.Shard != "" {
		return nil, fmt.Errorf("%w: a page or a shard", ErrShape)
	}
	return VerbatimObject(empty, m.ResourceVersion)
}

// VerbatimObject makes an object that verbatim forms write: what the other server has sent,
// with a revision. It is for Stream.Signal and AppendBookmark.
func VerbatimObject(text []byte, revision int64) (runtime.Object, error) {
	sent, ok := storedjson.ReadSentObject(text)
	if !ok {
		return nil, fmt.Errorf("%w: no object of the other server", ErrShape)
	}
	return &runtime.Unknown{Raw: sent.Append(nil, revision)}, nil
}

// appendVerbatim appends an entry as it was sent, with the entry's revision: as an item of a
// list, or else as it is sent alone.
func appendVerbatim(dst []byte, e *resource.Entry, item bool) ([]byte, error) {
	err := e.Read(func(value []byte) error {
		sent, ok := storedjson.ReadSentObject(value)
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

// verbatimObject is an entry as a GET answers it.
func verbatimObject(e *resource.Entry) ([]byte, error) {
	object, err := appendVerbatim(nil, e, false)
	return append(object, '\n'), err
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
