package apifeed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/sentobject"
)

// Surroundings are what a server sends around the objects of a resource, byte for byte and in
// the format in which the resource is followed. A caller that sends objects on as they came
// sends these bytes as well: a server of another version may write others. They are immutable.
type Surroundings struct {
	// EmptyList is the answer to a list without objects.
	EmptyList []byte
	// InitialEventsEnd is the object of the bookmark after initial events. It is nil if the
	// server has no watches that begin with these. Bookmark is the object of any other
	// bookmark. Before the server has sent one, Bookmark is made of InitialEventsEnd.
	Bookmark, InitialEventsEnd []byte
	// Warnings are the warnings with which the server answers each read of the version.
	Warnings []string
}

// errSurroundings says that a server writes something else than API servers of Kubernetes do.
var errSurroundings = errors.New("unexpected shape of an answer")

// Surroundings returns what the server sends around objects. It returns nil before that is
// known, and always without Config.Verbatim. It is known before the first load ends.
func (f *Feed) Surroundings() *Surroundings { return f.surroundings.Load() }

// format returns how the server writes objects.
func (f *Feed) format() sentobject.Format {
	if f.cfg.Protobuf {
		return sentobject.Protobuf
	}
	return sentobject.JSON
}

// learn asks the server what it sends around objects: at the start, and after each break,
// when another server may answer. Both questions are about an object that does not exist,
// and cost the server the lookup of one key.
func (f *Feed) learn(ctx context.Context) error {
	if !f.cfg.Verbatim || f.confirmed.is() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	absent := "millrace-" + string(uuid.NewUUID())
	collection, _ := f.collectionOf([]byte(f.cfg.Prefix + absent))
	if f.cfg.Namespaced {
		collection, _ = f.collectionOf([]byte(f.cfg.Prefix + absent + "/" + absent))
	}
	parameters := url.Values{"fieldSelector": {nameSelector(absent)}}
	learnt, err := f.readEmptyList(ctx, collection, parameters)
	if err == nil {
		learnt.InitialEventsEnd, err = f.readInitialEventsEnd(ctx, collection, parameters)
	}
	if err != nil {
		return fmt.Errorf("ask what %s sends around objects: %w", f.cfg.URL, err)
	}
	learnt.Bookmark = sentobject.WithoutInitialEventsEnd(f.format(), learnt.InitialEventsEnd)
	f.bookmarkRead = false
	f.surroundings.Store(learnt)
	return nil
}

func (f *Feed) readEmptyList(ctx context.Context, collection string, parameters url.Values) (*Surroundings, error) {
	resp, err := f.request(collection, parameters, f.codec.mediaType()).send(ctx)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err != nil {
		return nil, err
	}
	if _, ok := sentobject.ReadEmptyList(f.format(), body); !ok {
		return nil, fmt.Errorf("%w: an empty list is %.200q", errSurroundings, body)
	}
	return &Surroundings{EmptyList: body, Warnings: warnings(resp)}, nil
}

func warnings(resp *http.Response) (texts []string) {
	read, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
	for _, w := range read {
		texts = append(texts, w.Text)
	}
	return texts
}

// readInitialEventsEnd reads the first bookmark of a watch that begins with all objects, of
// which there are none. It returns nil if the server has no such watches.
func (f *Feed) readInitialEventsEnd(ctx context.Context, collection string, selected url.Values) ([]byte, error) {
	parameters := f.watchParameters(true, minWatchTime)
	parameters.Set("fieldSelector", selected.Get("fieldSelector"))
	resp, err := f.request(collection, parameters, f.codec.watchMediaType()).send(ctx)
	if isInvalid(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	event, err := f.codec.frames(bufio.NewReader(resp.Body))()
	switch {
	case err != nil:
		return nil, err
	case event.kind == apiwatch.Error:
		return nil, f.watchError(event.status)
	}
	if _, ok := sentobject.Read(f.format(), event.object.value); !ok || event.kind != apiwatch.Bookmark || !event.object.endsInitial {
		return nil, fmt.Errorf("%w: initial events end with %s %.200q", errSurroundings, event.kind, event.object.value)
	}
	return event.object.value, nil
}

// observeBookmark keeps the first bookmark after learn, as the server has sent it.
func (f *Feed) observeBookmark(o *object) {
	known := f.surroundings.Load()
	if known == nil || f.bookmarkRead || o.endsInitial {
		return
	}
	if _, ok := sentobject.Read(f.format(), o.value); ok {
		observed := *known
		observed.Bookmark, f.bookmarkRead = o.value, true
		f.surroundings.Store(&observed)
	}
}
