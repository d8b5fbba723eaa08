package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// writer writes objects of random names, one after another.
type writer struct {
	run  *run
	id   string
	rand *rand.Rand
	// believed is what the writer last saw of each object: its resource version, or "" if it
	// was not there. Other writers change the same objects.
	believed map[objectKey]string
	written  int
}

// work writes until the context ends, at most once in each period.
func (w *writer) work(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for ctx.Err() == nil {
		key := w.pick()
		if w.write(ctx, key); w.rand.IntN(2) == 0 {
			w.readBack(ctx, key)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// readBack reads at once what the writer may have written, at any server. That finds a server
// which is behind for a moment only.
func (w *writer) readBack(ctx context.Context, key objectKey) {
	req := Request{Verb: "get", Resource: key.resource, Name: key.Name, Class: unset, Form: formJSON}
	if w.rand.IntN(2) == 0 {
		req = Request{Verb: "list", Resource: key.resource, Class: unset, Select: selectAll, Form: formJSON}
	}
	r := &reader{run: w.run, id: w.id, rand: w.rand, servers: w.run.servers}
	r.read(ctx, req)
}

func (w *writer) pick() objectKey {
	resources := w.run.fixture.resources
	return objectKey{resources[w.rand.IntN(len(resources))].name, watchcheck.Key{Namespace: w.run.fixture.namespace, Name: w.run.keyName(w.rand)}}
}

// write creates an object, or changes or deletes the one that it believes to be there. Now
// and then it acts against what it believes.
func (w *writer) write(ctx context.Context, key objectKey) {
	version, exists := w.believed[key], w.believed[key] != ""
	if w.rand.IntN(10) == 0 {
		exists = !exists
	}
	do := create
	if exists {
		do = []verb{replace, replace, patch, patch, remove}[w.rand.IntN(5)]
	}
	w.written++
	rec := &Write{Verb: do, Key: key, Half: halves[w.rand.IntN(len(halves))], Value: fmt.Sprintf("%s-%d", w.id, w.written)}
	w.send(ctx, rec, version)
	w.believe(rec)
	w.run.record.addWrite(rec)
}

// send sends a write and notes the answer. It goes on when the context ends, or its outcome
// would not be known.
func (w *writer) send(ctx context.Context, rec *Write, version string) {
	s := w.run.servers[w.rand.IntN(len(w.run.servers))]
	method, path, header, body := w.request(rec, version)
	rec.Server, rec.Client, rec.Called = s.index, w.id, w.run.now()
	got, err := s.call(context.WithoutCancel(ctx), method, path, nil, header, body)
	rec.Returned = w.run.now()
	if err != nil {
		rec.Err = err.Error()
		return
	}
	if rec.Status = got.status; !rec.done() {
		rec.Err = statusText(got.body)
		return
	}
	if rec.Verb == remove {
		rec.UID = deletedUID(got.body)
		return
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(got.body, &object); err != nil {
		rec.Err = err.Error()
		return
	}
	rec.UID = object.UID
	if rec.Revision, err = parseRevision(object.ResourceVersion); err != nil {
		rec.Err = err.Error()
	}
}

func (w *writer) request(rec *Write, version string) (method, path string, header http.Header, body []byte) {
	r := w.run.fixture.resource(rec.Key.resource)
	object := r.collection + "/" + url.PathEscape(rec.Key.Name)
	switch rec.Verb {
	case create:
		return http.MethodPost, r.collection, jsonHeader(), r.object(rec.Key.Name, rec.Value, rec.Half, "")
	case replace:
		if version == "" {
			version = strconv.FormatInt(w.run.record.newest(), 10) // a conflict, unless the object is of that version
		}
		rec.Expected = version
		return http.MethodPut, object, jsonHeader(), r.object(rec.Key.Name, rec.Value, rec.Half, version)
	case patch:
		changes := map[string]any{"metadata": map[string]any{"labels": map[string]string{valueLabel: rec.Value, halfLabel: rec.Half}}}
		return http.MethodPatch, object, http.Header{"Content-Type": {string(types.MergePatchType)}}, mustJSON(changes)
	default:
		rec.Value, rec.Half = "", ""
		return http.MethodDelete, object, nil, nil
	}
}

func (w *writer) believe(rec *Write) {
	switch {
	case rec.done() && rec.Verb != remove && rec.Revision > 0:
		w.believed[rec.Key] = strconv.FormatInt(rec.Revision, 10)
	case rec.Status == http.StatusConflict && rec.Verb == create:
		w.believed[rec.Key] = "1" // there is one, of another version
	default:
		delete(w.believed, rec.Key)
	}
}

// deletedUID is the identity of a deleted object. The answer is a Status, or the object.
func deletedUID(body []byte) types.UID {
	var deleted struct {
		Metadata metav1.ObjectMeta     `json:"metadata"`
		Details  *metav1.StatusDetails `json:"details"`
	}
	if json.Unmarshal(body, &deleted) != nil {
		return ""
	}
	if deleted.Details != nil {
		return deleted.Details.UID
	}
	return deleted.Metadata.UID
}
