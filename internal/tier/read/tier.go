package read

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/account/usage"
)

// Tier is the read tier: a handler in front of Kubernetes' handlers.
//
// It stands after Kubernetes' filters and not in place of them, so that all that the
// filters do stays Kubernetes'. It decides for each request whether it answers, before the
// first byte. After that byte there is no way back: an answer that cannot be finished is
// cut short. All methods are safe for concurrent use, with the exceptions that are noted.
type Tier struct {
	metrics  *Metrics
	failures failureLog
	// lists are the accounts of GETs and LISTs. Nil keeps none.
	lists *usage.Accounts
	// passedOnWatches has the accounts of watches that are passed on. Nil keeps none.
	passedOnWatches *slo.Watches
	// passedOnElsewhere is Config.PassedOnElsewhere.
	passedOnElsewhere bool

	// routes has the routes of SetRoutes.
	routes atomic.Pointer[map[schema.GroupVersionResource]*Route]
	// custom finds the routes of custom resources. It is nil before SetFinder.
	custom atomic.Pointer[Finder]
	// authorizer decides which clients may know the number of objects beyond the objects
	// that a list selects.
	authorizer atomic.Pointer[authorizer.UnconditionalAuthorizer]
	// answering counts requests that are being answered from bytes. A watch is counted until
	// its session is prepared.
	answering atomic.Int64
	// warming says that Warm is encoding.
	warming atomic.Bool
	// shutdown starts, once, the goroutine that drains all watches at the server's shutdown.
	shutdown sync.Once
	// watches are the watches that follow.
	watches watchSet
	// historyWatches counts the watches that another server sends now because the cache
	// lacks their events.
	historyWatches atomic.Int64
	// drainTime is Config.DrainTime.
	drainTime time.Duration
	// bookmarks is the timer of the bookmarks that clients ask for at an interval.
	bookmarks bookmarkTimer
}

// Finder returns the route of a custom resource. It returns nil if there is none. Such
// routes come and go with their definitions, so the tier asks with each request.
type Finder func(schema.GroupVersionResource) *Route

// Config configures Tier.
type Config struct {
	// Metrics count requests. They must not be nil.
	Metrics *Metrics
	// Logger receives encoders that fail. Nil means slog's default.
	Logger *slog.Logger
	// Clock bounds how often a failure is logged. Nil means the real clock.
	Clock clock.PassiveClock
	// PassedOnElsewhere says that another process answers what is passed on. Accounts then
	// know no CPU of such requests, because their time is spent waiting. Watches that were
	// passed on for a reason of takenOverLater are taken over once the cache has come as far.
	PassedOnElsewhere bool
	// DrainTime bounds the time over which the ends of watches are spread at a shutdown.
	// Zero ends all at the same time.
	DrainTime time.Duration
}

// NewTier makes a tier that passes everything on until it is given routes.
func NewTier(cfg Config) *Tier {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	t := &Tier{metrics: cfg.Metrics, failures: failureLog{logger: cfg.Logger, clock: cfg.Clock}, passedOnElsewhere: cfg.PassedOnElsewhere, drainTime: cfg.DrainTime}
	t.routes.Store(&map[schema.GroupVersionResource]*Route{})
	return t
}

// SetRoutes replaces the resources that the tier answers for.
func (t *Tier) SetRoutes(routes []*Route) {
	byName := make(map[schema.GroupVersionResource]*Route, len(routes))
	for _, r := range routes {
		byName[r.cfg.Resource] = r
	}
	t.routes.Store(&byName)
}

// SetFinder lets the tier answer for custom resources too.
func (t *Tier) SetFinder(custom Finder) { t.custom.Store(&custom) }

// SetAuthorizer sets what decides whether a client may know more of a list than the objects
// in it. Before it is set, no client may.
func (t *Tier) SetAuthorizer(a authorizer.UnconditionalAuthorizer) { t.authorizer.Store(&a) }

func (t *Tier) route(gvr schema.GroupVersionResource) *Route {
	if r := (*t.routes.Load())[gvr]; r != nil {
		return r
	}
	if find := t.custom.Load(); find != nil {
		return (*find)(gvr)
	}
	return nil
}

// Wrap returns a handler that answers the reads which the tier can answer, and rejects
// some in a storm. It passes all other requests on to next.
func (t *Tier) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		began := t.begin()
		q, reason := t.parse(req)
		if q != nil {
			q.account.startedAt = began
			if q.rejectInStorm(w, req) {
				return
			}
		}
		if reason == "" {
			t.answering.Add(1)
			reason = func() passReason {
				defer t.answering.Add(-1)
				return q.answerCounted(w, req)
			}()
		}
		if reason == "" {
			if q.session != nil {
				q.session.serve()
			}
			return
		}
		if reason == passNotRead {
			next.ServeHTTP(w, req)
			return
		}
		t.metrics.passedOn.WithLabelValues(string(reason)).Inc()
		if q != nil && q.isWatch && t.passedOnElsewhere && takenOverLater[reason] {
			if rest := q.passOnWatch(w, req, next, reason); rest != nil {
				rest.serve()
			}
			return
		}
		cause := passOnCause{reason: reason, startedAt: began, waits: new(usage.WaitClock)}
		if q != nil {
			cause.waits, cause.relist = &q.account.waits, q.isFullRelist()
		}
		t.countAndPassOn(w, req, next, cause)
	})
}

// answerCounted does answer's work. It counts the request with the route of a custom resource,
// whose definition waits for it before it changes.
func (q *query) answerCounted(w http.ResponseWriter, req *http.Request) passReason {
	if custom := q.route.cfg.Custom; custom != nil {
		end, ok := custom.Begin()
		if !ok {
			return passedResource
		}
		defer end()
	}
	return q.answer(w, req)
}

// answer answers a GET or LIST, or prepares the session of a WATCH. Otherwise it returns why
// Kubernetes must answer.
func (q *query) answer(w http.ResponseWriter, req *http.Request) passReason {
	switch {
	case q.isWatch:
		return q.watch(w, req)
	case q.name != "":
		return q.get(w, req)
	}
	return q.list(w, req)
}
