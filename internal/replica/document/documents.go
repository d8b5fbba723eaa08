package document

import (
	"container/list"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// Config configures Documents. Door, Local, Changes and Metrics are needed.
type Config struct {
	// Door leads to the upstream.
	Door *upstream.Door
	// Local reports whether the upstream itself serves a group version. The documents of other
	// group versions come from servers that the upstream proxies to, which may tell each user
	// something else.
	Local func(schema.GroupVersion) bool
	// Changes returns another number after documents may have changed: after a change of a
	// definition, or of an APIService if the replica has these.
	Changes func() int64
	// Bytes bounds the documents in memory, and as much again while answers are read. 0 means
	// 64 MiB.
	Bytes int64
	// Clock measures how old documents are. Nil means the real clock.
	Clock   clock.PassiveClock
	Metrics *upstream.Metrics
}

const (
	defaultDocumentBytes = 64 << 20
	// documentPeriod is how long a document that the upstream has confirmed is sent without asking
	// again. It bounds how late a change is seen that nothing reports, such as a change in a
	// server that the upstream proxies to.
	documentPeriod = 2 * time.Second
	// settlePeriod is how long after a change each request waits until the upstream has confirmed
	// the document. The upstream's controllers bring a change into its documents one after the
	// other, OpenAPI last. One question to the upstream serves all requests that wait.
	settlePeriod = 15 * time.Second
	// maxChecks bounds the questions to the upstream at a time, and checksEach the questions
	// at a time that one user has begun.
	maxChecks, checksEach = 64, 32
	// userShare divides Config.Bytes: the documents for which one user alone has asked may take
	// one part in userShare.
	userShare = 4
	// maxRounds bounds the questions for which a request waits. One is about the document, and
	// a second one about how the upstream answers a client that has it. More questions are
	// needed where one began too early, and where a document is dropped meanwhile.
	maxRounds = 4
)

// Documents keeps the upstream's discovery and OpenAPI documents, byte for byte, by all
// headers on which they depend. The caller checks the user's right first.
//
// The upstream confirms a document each documentPeriod while clients ask for it: by its
// ETag, or by sending it again. After a change (Config.Changes) it confirms each answer for
// a while. A question answers all requests that arrived before it began. If the upstream
// does not answer or is overloaded, documents stay as they are.
//
// The goroutine of a request asks, and goes on if its client leaves, because other requests
// wait for the answer. Memory is bounded: the documents that were not asked for longest go. A
// document that one user alone has asked for counts against that user's share, and a user's
// own documents are dropped first. So odd requests of one user do not push out what all read.
type Documents struct {
	cfg Config
	// reading bounds the bytes of answers that are being read.
	reading *semaphore.Weighted
	// checks bounds the questions to the upstream.
	checks *upstream.Limiter

	mu struct {
		sync.Mutex
		byKey map[key]*entry
		// recent has the entries, the one that was asked for last at the front.
		recent list.List
		bytes  int64
		// byUser are the bytes of entries by their only user.
		byUser map[string]int64
		// changes is the newest Config.Changes, and changedAt when a request first saw it.
		changes   int64
		changedAt time.Time
	}
}

// entry is what is known about a key. Documents.mu guards it.
type entry struct {
	key key
	// user is the only user who has asked for the document. It is "" if several users
	// have.
	user string
	// document is nil if it is not known, or must not be kept.
	document *document
	// refused says that requests are passed on until the next check.
	refused bool
	// confirmedAt is when the question began that led to the document or to the refusal.
	confirmedAt time.Time
	// heldUntil is until when the upstream is not asked, because it did not answer or was
	// overloaded.
	heldUntil time.Time
	// check is the question that the upstream is being asked, or nil.
	check   *check
	element *list.Element
}

// size returns about the bytes that the entry takes.
func (e *entry) size() int64 {
	return documentOverhead + int64(len(e.user)+e.key.target.Len()+len(e.key.accept)+len(e.key.encoding)+len(e.key.address)) + e.document.size()
}

// check is a question to the upstream whether a document is current.
type check struct {
	began time.Time
	done  chan struct{}
	// release gives back the place of the user who asks.
	release func()
}

// New makes Documents that know nothing.
func New(cfg Config) *Documents {
	if cfg.Bytes == 0 {
		cfg.Bytes = defaultDocumentBytes
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	d := &Documents{cfg: cfg, reading: semaphore.NewWeighted(cfg.Bytes), checks: upstream.NewLimiter(maxChecks, checksEach)}
	d.mu.byKey, d.mu.byUser = map[key]*entry{}, map[string]int64{}
	return d
}

// Bytes returns the memory of the documents.
func (d *Documents) Bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.bytes
}

// Answer answers a request of a user who may read the document. If the request must be
// passed on, it writes nothing and returns false.
func (d *Documents) Answer(ctx context.Context, w http.ResponseWriter, r Request) bool {
	doc := d.current(ctx, r)
	if doc == nil {
		return false
	}
	status := doc.serve(w, doc.matches(r.etag) && doc.notModified != nil)
	d.cfg.Metrics.Documents.WithLabelValues(strconv.Itoa(status)).Inc()
	return true
}

// current returns the document for a request. It returns nil if there is none that may be
// sent.
func (d *Documents) current(ctx context.Context, r Request) *document {
	arrived := d.cfg.Clock.Now()
	for range maxRounds {
		found, pending, toAsk := d.look(r, arrived)
		switch {
		case pending == nil:
			return found
		case toAsk != nil:
			d.check(ctx, toAsk)
		default:
			select {
			case <-pending.done:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// look returns the document, or a question to the upstream for which the request must wait. If
// the question is the caller's to ask, toAsk is its entry. Without a question, a document that
// is nil means that the request is passed on.
func (d *Documents) look(r Request, arrived time.Time) (_ *document, pending *check, toAsk *entry) {
	changes := d.cfg.Changes()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Clock.Now()
	if changes != d.mu.changes {
		d.mu.changes, d.mu.changedAt = changes, now
	}
	e := d.mu.byKey[r.key]
	if e != nil && e.user != r.user {
		d.shareLocked(e)
	}
	if e != nil && e.isCurrent(r, arrived, now.Sub(d.mu.changedAt) < settlePeriod, now) {
		d.mu.recent.MoveToFront(e.element)
		return e.document, nil, nil
	}
	if e != nil && e.check != nil {
		return nil, e.check, nil
	}
	release, ok := d.checks.TryAcquire(r.user)
	if !ok {
		return nil, nil, nil
	}
	if e == nil {
		e = &entry{key: r.key, user: r.user}
		e.element = d.mu.recent.PushFront(e)
		d.mu.byKey[e.key] = e
		d.countLocked(e, e.size())
	}
	e.check = &check{began: now, done: make(chan struct{}), release: release}
	return nil, e.check, e
}

// isCurrent reports whether what is known answers a request. settling says that the
// upstream may be bringing a change into its documents.
func (e *entry) isCurrent(r Request, arrived time.Time, settling bool, now time.Time) bool {
	doc := e.document
	switch {
	case now.Before(e.heldUntil):
		return true
	case doc == nil && !e.refused:
		return false
	case doc != nil && doc.matches(r.etag) && doc.notModified == nil && !doc.unconditional:
		return false // how the upstream answers a client that has the document is not known yet
	case settling && !e.refused:
		return !e.confirmedAt.Before(arrived)
	}
	return now.Sub(e.confirmedAt) < documentPeriod
}

// settle records the answer of the upstream to the question of an entry, and makes room.
func (d *Documents) settle(e *entry, a checkAnswer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.countLocked(e, -e.size())
	switch a.result {
	case checkFailed:
		e.heldUntil = d.cfg.Clock.Now().Add(documentPeriod)
	default:
		e.document, e.refused, e.confirmedAt, e.heldUntil = a.document, a.document == nil, e.check.began, time.Time{}
	}
	d.countLocked(e, e.size())
	e.check.release()
	close(e.check.done)
	e.check = nil
	d.mu.recent.MoveToFront(e.element)
	if e.user != "" {
		d.dropLocked(e, func(old *entry) bool { return old.user == e.user }, func() bool { return d.mu.byUser[e.user] > d.cfg.Bytes/userShare })
	}
	d.dropLocked(e, func(*entry) bool { return true }, func() bool { return d.mu.bytes > d.cfg.Bytes })
}

// dropLocked drops entries of a kind, the least recently requested first, while they are too
// much. It keeps newest, and entries about which the upstream is being asked.
func (d *Documents) dropLocked(newest *entry, isKind func(*entry) bool, isTooMuch func() bool) {
	for at := d.mu.recent.Back(); at != nil && at != newest.element && isTooMuch(); {
		old, _ := at.Value.(*entry)
		before := at.Prev()
		if old.check == nil && isKind(old) {
			d.mu.recent.Remove(at)
			delete(d.mu.byKey, old.key)
			d.countLocked(old, -old.size())
		}
		at = before
	}
}

// countLocked adds bytes to the sum of all entries, and to the sum of the entry's only user.
func (d *Documents) countLocked(e *entry, bytes int64) {
	d.mu.bytes += bytes
	if e.user == "" {
		return
	}
	if d.mu.byUser[e.user] += bytes; d.mu.byUser[e.user] == 0 {
		delete(d.mu.byUser, e.user)
	}
}

// shareLocked records that several users have asked for an entry.
func (d *Documents) shareLocked(e *entry) {
	d.countLocked(e, -e.size())
	e.user = ""
	d.countLocked(e, e.size())
}
