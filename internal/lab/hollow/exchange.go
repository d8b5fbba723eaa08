package hollow

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// An exchange keeps the first and the last bytes of the body of a LIST: they have its revision.
const (
	headBytes = 4 << 10
	tailBytes = 2 << 10
	// maxPodList bounds the list of a kubelet's pods, which is kept whole.
	maxPodList = 64 << 20
)

// shortWatch is the age from which a watch that ends is started again immediately. After a shorter
// watch there is a pause.
const shortWatch = time.Second

// exchange is one request of a reflector, with its answer. All fields are guarded by the
// lock of the reflector.
type exchange struct {
	reflector *reflector
	counter   *counter
	stream    *watchclient.Stream
	isWatch   bool
	initial   bool // a watch that starts with all objects
	began     time.Time

	header watchclient.Header
	open   bool // it is counted as an open watch
	relist *time.Timer
	// head and tail are the first and the last bytes of the body, unless the watch is open.
	head, tail []byte
	events     watchevent.Reader
	synced     bool  // all initial events have arrived
	broken     error // the reason why the watch cannot go on, or nil
	code       int   // status code of the ERROR event that broke the watch
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
	x.counter.recordSuccess(time.Since(x.began))
	r.mu.retries = 0
	if !x.initial {
		r.syncLocked(true)
	}
	if times := r.plan.Relist; times.Max > 0 {
		x.relist = time.AfterFunc(r.instance.random.choose(times), func() { r.relist(x) })
	}
}

// closeWatch ends the count of an open watch, and stops its relist timer.
func (x *exchange) closeWatch() {
	if x.open {
		x.open = false
		x.counter.open.Add(-1)
		x.reflector.syncLocked(false)
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
	if err := x.events.Feed(p, x.takeEvent); err != nil && x.broken == nil {
		x.broken = err
	}
	if x.broken != nil {
		r.dropLocked()
		r.watchFailedLocked(x, x.broken.Error())
	}
}

// keep keeps the first and the last bytes of a body, and a whole list of pods to run.
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

// takeEvent handles an event of a watch. The reflector's lock is held.
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
		r.sink.observePod(e.Type, e.Object, x.events.Form)
	}
	if x.initial && !x.synced {
		if !e.EndsInitial() {
			return
		}
		x.synced = true
		r.mu.resumes = true
		r.mu.expired = false
		if r.sink != nil {
			r.sink.endList()
		}
		r.syncLocked(true)
	}
	if len(e.Revision) > 0 {
		r.mu.revision = append(r.mu.revision[:0], e.Revision...)
	}
}

// takeError handles an ERROR event, after which the watch cannot go on.
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
	x.code = int(status.Code)
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
	x.closeWatch()
	switch {
	case r.instance.fleet.ctx.Err() != nil: // the run ends
	case err != nil && x.isWatch && wasOpen:
		r.watchFailedLocked(x, err.Error())
	case err != nil:
		x.counter.recordFailure(err.Error())
		r.waitLocked(r.nextPauseLocked())
	case x.header.Status != http.StatusOK:
		r.handleRefusalLocked(x)
	case x.isWatch:
		r.watchEndedLocked(x)
	default:
		r.listDoneLocked(x)
	}
}

// handleRefusalLocked handles an answer with another status than 200.
func (r *reflector) handleRefusalLocked(x *exchange) {
	status := x.header.Status
	if status == http.StatusNotFound && r.plan.Optional {
		r.endLocked()
		r.instance.fleet.noteUnserved(r.plan.Resource)
		return
	}
	message := statusMessage(x.head, x.events.Form)
	x.counter.recordFailure(fmt.Sprintf("%d %s", status, message))
	throttled := x.header.RetryAfter > 0 && (status == http.StatusTooManyRequests || status >= http.StatusInternalServerError)
	switch {
	case throttled && r.mu.retries < maxRetries: // as client-go, which does not report it to reflectors
		r.mu.retries++
		r.waitLocked(x.header.RetryAfter)
		return
	case r.restartExpiredLocked(x, status, message):
		return
	case x.initial && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity):
		r.mu.withoutWatchList = true
	case x.isWatch && status != http.StatusTooManyRequests:
		r.mu.resumes = false
	}
	r.mu.retries = 0
	r.waitLocked(r.nextPauseLocked())
}

// restartExpiredLocked starts a LIST or a watch-list without a revision if the server cannot list
// at the reflector's revision. It reports whether it has started a request.
func (r *reflector) restartExpiredLocked(x *exchange, status int, message string) bool {
	unavailable := status == http.StatusGone || strings.Contains(message, "Too large resource version")
	if !unavailable || x.isWatch && !x.initial || len(r.mu.revision) == 0 || r.mu.expired {
		return false
	}
	r.mu.expired = true
	r.beginLocked()
	return true
}

// statusMessage returns the message of a Status in a body. If the JSON is not a Status, it returns
// the first 100 bytes.
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

// watchFailedLocked goes on after an open watch that failed. If its connection has ended after
// shortWatch or later, the next watch starts immediately, after its last event. Otherwise a request
// follows after a pause. The request is a LIST or a watch-list if the plan has NoResume, or if the
// server has sent another error than 429.
func (r *reflector) watchFailedLocked(x *exchange, why string) {
	x.counter.failures.Add(1)
	x.counter.noteError(why)
	switch {
	case r.plan.NoResume:
		r.forgetLocked()
	case x.broken == nil && r.mu.resumes && time.Since(x.began) >= shortWatch:
		r.beginLocked()
		return
	case x.broken != nil && r.restartExpiredLocked(x, x.code, why):
		return
	case x.broken != nil && x.code != http.StatusTooManyRequests:
		r.mu.resumes = false
	}
	r.waitLocked(r.nextPauseLocked())
}

// watchEndedLocked goes on after a watch that the server has ended.
func (r *reflector) watchEndedLocked(x *exchange) {
	if r.plan.NoResume {
		r.forgetLocked()
	}
	if time.Since(x.began) < shortWatch {
		r.waitLocked(r.nextPauseLocked())
		return
	}
	r.beginLocked()
}

// listDoneLocked goes on after a LIST or GET that has succeeded: with the next page, with a
// watch, after a pause or not at all, as the plan says.
func (r *reflector) listDoneLocked(x *exchange) {
	x.counter.recordSuccess(time.Since(x.began))
	if r.plan.Mode == agentprofile.ModeGet {
		r.mu.failures = 0
		r.mu.retries = 0
		r.waitLocked(r.instance.random.choose(r.plan.Every))
		return
	}
	head, tail := x.head, x.tail
	if x.header.Gzip {
		head = gunzip(head)
		tail = nil
	}
	revision, token := watchevent.ListPosition(x.events.Form, head, tail)
	if r.sink != nil {
		x.takePods()
	}
	switch {
	case revision == "":
		x.counter.recordFailure("a list without a resource version")
		r.waitLocked(r.nextPauseLocked())
		return
	case token != "":
		r.listLocked(token)
		return
	}
	r.mu.retries = 0
	r.mu.expired = false
	if r.sink != nil {
		r.sink.endList()
	}
	switch {
	case r.watches():
		r.mu.revision = append(r.mu.revision[:0], revision...)
		r.mu.resumes = true
		r.watchLocked()
	case r.plan.Mode == agentprofile.ModePoll:
		r.mu.failures = 0
		r.waitLocked(r.instance.random.choose(r.plan.Every))
	default:
		r.mu.state = stateStopped
	}
}

// takePods passes the pods of a list to the sink.
func (x *exchange) takePods() {
	var list corev1.PodList
	var err error
	if x.events.Form == watchevent.Protobuf {
		err = list.Unmarshal(watchevent.Unwrap(x.head))
	} else {
		err = json.Unmarshal(x.head, &list)
	}
	if err != nil {
		x.counter.recordFailure("a list of pods that cannot be read")
		return
	}
	for i := range list.Items {
		if object, err := list.Items[i].Marshal(); err == nil {
			x.reflector.sink.observePod(watchevent.Added, object, watchevent.Protobuf)
		}
	}
}

// gunzip returns the first bytes of a compressed body, whose end may be missing. It returns nil
// if the body is not gzip.
func gunzip(head []byte) []byte {
	in, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return nil
	}
	plain := make([]byte, headBytes)
	n, _ := io.ReadFull(in, plain) // an error only means that the end is missing
	return plain[:n]
}
