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
	// believed has the resource version of each object as the writer last saw it. An object
	// that was absent has none. Other writers change the same objects.
	believed map[objectKey]string
	written  int // number of writes
}

// work writes until the context ends, at most once in each period.
func (w *writer) work(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for ctx.Err() == nil {
		key := w.pickKey()
		if w.write(ctx, key); w.rand.IntN(2) == 0 {
			w.readBack(ctx, key)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// readBack reads immediately, at a random server, what the writer may have written. The read finds
// a server that lags for a moment only.
func (w *writer) readBack(ctx context.Context, key objectKey) {
	req := Request{Verb: "get", Resource: key.resource, Name: key.Name, Class: versionUnset, Encoding: encodingJSON}
	if w.rand.IntN(2) == 0 {
		req = Request{Verb: "list", Resource: key.resource, Class: versionUnset, Select: selectAll, Encoding: encodingJSON}
	}
	r := &reader{run: w.run, id: w.id, rand: w.rand, servers: w.run.servers}
	r.read(ctx, req)
}

// pickKey returns a random object.
func (w *writer) pickKey() objectKey {
	resources := w.run.fixture.resources
	resource := resources[w.rand.IntN(len(resources))].name
	return objectKey{resource, watchcheck.Key{Namespace: w.run.fixture.namespace, Name: w.run.randomKeyName(w.rand)}}
}

// write changes or deletes an object if the writer believes that it exists, and creates it if
// not. One of ten writes acts against that belief.
func (w *writer) write(ctx context.Context, key objectKey) {
	version := w.believed[key]
	exists := version != ""
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

// send sends a write to a random server and sets its answer. version is the resource version of
// an update. The end of the context does not end the request, since its outcome would be unknown.
func (w *writer) send(ctx context.Context, rec *Write, version string) {
	s := w.run.servers[w.rand.IntN(len(w.run.servers))]
	method, path, header, body := w.httpRequest(rec, version)
	rec.Server, rec.Client, rec.Called = s.index, w.id, w.run.now()
	got, err := s.call(context.WithoutCancel(ctx), method, path, nil, header, body)
	rec.Returned = w.run.now()
	if err != nil {
		rec.Err = err.Error()
		return
	}
	if rec.Status = got.status; !rec.isAcknowledged() {
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

// httpRequest returns the HTTP request for a write. It sets Expected for an update, and clears
// Value and Half for a deletion.
func (w *writer) httpRequest(rec *Write, version string) (method, path string, header http.Header, body []byte) {
	r := w.run.fixture.resource(rec.Key.resource)
	object := r.collection + "/" + url.PathEscape(rec.Key.Name)
	switch rec.Verb {
	case create:
		return http.MethodPost, r.collection, jsonHeader(), r.encodeObject(rec.Key.Name, rec.Value, rec.Half, "")
	case replace:
		if version == "" {
			version = strconv.FormatInt(w.run.record.newestRevision(), 10) // a conflict, unless the object is of that version
		}
		rec.Expected = version
		return http.MethodPut, object, jsonHeader(), r.encodeObject(rec.Key.Name, rec.Value, rec.Half, version)
	case patch:
		changes := map[string]any{"metadata": map[string]any{"labels": map[string]string{valueLabel: rec.Value, halfLabel: rec.Half}}}
		return http.MethodPatch, object, http.Header{"Content-Type": {string(types.MergePatchType)}}, mustJSON(changes)
	default:
		rec.Value, rec.Half = "", ""
		return http.MethodDelete, object, nil, nil
	}
}

// believe updates the writer's belief after the answer to a write.
func (w *writer) believe(rec *Write) {
	switch {
	case rec.isAcknowledged() && rec.Verb != remove && rec.Revision > 0:
		w.believed[rec.Key] = strconv.FormatInt(rec.Revision, 10)
	case rec.Status == http.StatusConflict && rec.Verb == create:
		w.believed[rec.Key] = "1" // there is one, of another version
	default:
		delete(w.believed, rec.Key)
	}
}

// deletedUID returns the UID of a deleted object, "" if the answer has none. The answer is a
// Status or the object.
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
