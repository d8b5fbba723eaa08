package hollow

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// Of the body of a LIST, the first and the last bytes are kept: they have its revision.
const (
	headBytes = 4 << 10
	tailBytes = 2 << 10
	// maxPodList bounds the list of a kubelet's pods, which is kept whole.
	maxPodList = 64 << 20
)

// shortWatch is how long a watch lasts at the least that is begun again at once.
const shortWatch = time.Second

// exchange is one request of a reflector, with its answer. All fields are guarded by the
// lock of the reflector.
type exchange struct {
	reflector *reflector
	counter   *counter
	stream    *watchclient.Stream
	isWatch   bool
	initial   bool // a watch that begins with all objects
	began     time.Time

	header watchclient.Header
	open   bool // it is counted as an open watch
	relist *time.Timer
	// head and tail are the first and the last bytes of a body that is no watch's.
	head, tail []byte
	events     watchevent.Reader
	synced     bool  // the initial events are over
	broken     error // why the watch cannot go on
	gone       bool  // because its revision is too old
}

// Header implements watchclient.Handler.
func (x *exchange) Header(h watchclient.Header) {
	r := x.reflector
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.current != x {
		return
	}
	x.header, x.events.Form = h, watchevent.FormOf(h.ContentType)
	if !x.isWatch || h.Status != http.StatusOK {
		return
	}
	x.open = true
	x.counter.open.Add(1)
	x.counter.done(time.Since(x.began))
	if !x.initial {
		r.mu.failures = 0
	}
	if times := r.plan.Relist; times.Max > 0 {
		x.relist = time.AfterFunc(r.instance.random.in(times), func() { r.relist(x) })
	}
}

// close stops what belongs to an open watch.
func (x *exchange) close() {
	if x.open {
		x.open = false
		x.counter.open.Add(-1)
	}
	if x.relist != nil {
		x.relist.Stop()
	}
}

// Data implements watchclient.Handler.
func (x *exchange) Data(p []byte) {
	r := x.reflector
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.current != x {
		return
	}
	x.counter.bytes.Add(int64(len(p)))
	if !x.open {
		x.keep(p)
		return
	}
	err := x.events.Feed(p, x.takeEvent)
	if err == nil {
		err = x.broken
	}
	if err != nil {
		r.dropLocked()
		r.watchFailedLocked(x, err.Error())
	}
}

// keep keeps the beginning and the end of a body, or all of a list of pods to run.
func (x *exchange) keep(p []byte) {
	limit := headBytes
	if x.reflector.sink != nil {
		limit = maxPodList
	}
	if room := limit - len(x.head); room > 0 {
		x.head = append(x.head, p[:min(room, len(p))]...)
	}
	if len(p) >= tailBytes {
		x.tail = append(x.tail[:0], p[len(p)-tailBytes:]...)
		return
	}
	if surplus := len(x.tail) + len(p) - tailBytes; surplus > 0 {
		x.tail = x.tail[:copy(x.tail, x.tail[surplus:])]
	}
	x.tail = append(x.tail, p...)
}

// takeEvent takes an event of a watch. The reflector's lock is held.
func (x *exchange) takeEvent(e *watchevent.Event) {
	r := x.reflector
	x.counter.events.Add(1)
	if x.broken != nil {
		return
	}
	if e.Type == watchevent.Error {
		x.takeError(e)
		return
	}
	if r.sink != nil && e.Type != watchevent.Bookmark {
		r.sink.pod(e.Type, e.Object, x.events.Form)
	}
	if x.initial && !x.synced {
		if !e.EndsInitial() {
			return
		}
		x.synced, r.mu.failures = true, 0
		if r.sink != nil {
			r.sink.synced()
		}
	}
	if len(e.Revision) > 0 {
		r.mu.revision = append(r.mu.revision[:0], e.Revision...)
	}
}

func (x *exchange) takeError(e *watchevent.Event) {
	var status metav1.Status
	var err error
	if x.events.Form == watchevent.Protobuf {
		err = status.Unmarshal(e.Object)
	} else {
		err = json.Unmarshal(e.Object, &status)
	}
	if err != nil {
		status.Message = "an ERROR event that cannot be read"
	}
	x.gone = status.Code == http.StatusGone
	x.broken = fmt.Errorf("%d %s", status.Code, status.Message)
}

// End implements watchclient.Handler.
func (x *exchange) End(err error) {
	r := x.reflector
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.current != x {
		return
	}
	r.mu.current = nil
	wasOpen := x.open
	x.close()
	switch {
	case r.instance.fleet.ctx.Err() != nil: // the run ends
	case err != nil && x.isWatch && wasOpen:
		r.watchFailedLocked(x, err.Error())
	case err != nil:
		x.counter.failed(err.Error())
		r.waitLocked(r.pauseLocked(0))
	case x.header.Status != http.StatusOK:
		r.refusedLocked(x)
	case x.isWatch:
		r.watchEndedLocked(x)
	default:
		r.listDoneLocked(x)
	}
}

// refusedLocked handles an answer with another status than 200.
func (r *reflector) refusedLocked(x *exchange) {
	status := x.header.Status
	if status == http.StatusNotFound && r.plan.Optional {
		r.mu.state = stateStopped
		r.instance.fleet.noteUnserved(r.plan.Resource)
		return
	}
	x.counter.failed(fmt.Sprintf("%d %s", status, statusMessage(x.head, x.events.Form)))
	switch {
	case status == http.StatusGone:
		r.mu.revision = r.mu.revision[:0]
	case x.initial && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity):
		r.mu.withoutWatchList = true
	}
	r.waitLocked(r.pauseLocked(x.header.RetryAfter))
}

// statusMessage returns the message of a Status in a body.
func statusMessage(body []byte, form watchevent.Form) string {
	if form == watchevent.Protobuf {
		return string(watchevent.Field(watchevent.Unwrap(body), 3))
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return string(bytes.TrimSpace(body[:min(len(body), 100)]))
}

// watchFailedLocked goes on after an open watch that broke: from its last event, or with a
// LIST if that is too old.
func (r *reflector) watchFailedLocked(x *exchange, why string) {
	x.counter.failures.Add(1)
	x.counter.noteError(why)
	if x.gone || r.plan.NoResume {
		r.mu.revision = r.mu.revision[:0]
	}
	r.waitLocked(r.pauseLocked(0))
}

// watchEndedLocked goes on after a watch that the server has ended.
func (r *reflector) watchEndedLocked(x *exchange) {
	if r.plan.NoResume {
		r.mu.revision = r.mu.revision[:0]
	}
	if time.Since(x.began) < shortWatch {
		r.waitLocked(r.pauseLocked(0))
		return
	}
	r.beginLocked()
}

// listDoneLocked goes on after a LIST or GET.
func (r *reflector) listDoneLocked(x *exchange) {
	x.counter.done(time.Since(x.began))
	if r.plan.Mode == agentprofile.ModeGet {
		r.mu.failures = 0
		r.waitLocked(r.instance.random.in(r.plan.Every))
		return
	}
	head, tail := x.head, x.tail
	if x.header.Gzip {
		head, tail = gunzip(head), nil
	}
	revision, token := watchevent.ListPosition(x.events.Form, head, tail)
	if r.sink != nil {
		x.takePods()
	}
	switch {
	case revision == "":
		x.counter.failed("a list without a resource version")
		r.waitLocked(r.pauseLocked(0))
		return
	case token != "":
		r.listLocked(token)
		return
	}
	r.mu.failures = 0
	if r.sink != nil {
		r.sink.synced()
	}
	switch {
	case r.watches():
		r.mu.revision = append(r.mu.revision[:0], revision...)
		r.watchLocked()
	case r.plan.Mode == agentprofile.ModePoll:
		r.waitLocked(r.instance.random.in(r.plan.Every))
	default:
		r.mu.state = stateStopped
	}
}

// takePods hands the pods of a list on.
func (x *exchange) takePods() {
	var list corev1.PodList
	var err error
	if x.events.Form == watchevent.Protobuf {
		err = list.Unmarshal(watchevent.Unwrap(x.head))
	} else {
		err = json.Unmarshal(x.head, &list)
	}
	if err != nil {
		x.counter.failed("a list of pods that cannot be read")
		return
	}
	for i := range list.Items {
		if object, err := list.Items[i].Marshal(); err == nil {
			x.reflector.sink.pod(watchevent.Added, object, watchevent.Protobuf)
		}
	}
}

// gunzip decompresses the beginning of a body, which is cut off.
func gunzip(head []byte) []byte {
	in, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return nil
	}
	plain := make([]byte, headBytes)
	n, _ := io.ReadFull(in, plain) // it ends early, as the body is cut off
	return plain[:n]
}
