package right

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/account/ratelimit"
)

// ReviewConfig configures Reviews. The zero value is the default.
type ReviewConfig struct {
	// InFlight bounds the reviews of each class that are with the upstream: tokens that were good
	// lately, other tokens, and rights. The bound is twice as large for rights. Zero means 25.
	InFlight int
	// Waiting is how many reviews of each class wait for their turn at most. Zero means 8,192.
	Waiting int
	// Wait is how long a review waits for its turn. Zero means 10 s.
	Wait time.Duration
	// Panics counts panics of questions. Nil counts none.
	Panics *panics.Counter
}

const (
	defaultInFlight = 25 // 100 of all classes, which is less than an API server lets one connection have
	defaultWaiting  = 8192
	defaultWait     = 10 * time.Second
)

// Reviews asks the upstream who users are and what they may do, for all requests. It shares
// and remembers answers, and bounds what anybody can make it ask the upstream:
//
//	token ─► answers ─┬─ was good lately ────────────────────────────► turns of users ───────┐
//	                  └─ otherwise ─► bad tokens left for the address ─► turns of addresses ─┼─► upstream
//	right ─► answers ────────────────────────────────────────────────► turns of users ───────┘
//
// What is not asked is not known: the caller passes the request on, and the upstream decides
// about it alone. So no request waits without bound, and none gets an answer that it should
// not. A user whose token was good lately waits for nobody's bad tokens: the turns are apart.
//
// Good and bad tokens, and rights given and refused, are remembered apart, so that no number
// of refusals drops what others need.
//
// It is safe for concurrent use.
type Reviews struct {
	// secret begins what is hashed, so that nobody can choose the key of an answer.
	secret [sha256.Size]byte
	// asked has the questions that are waiting for a turn or are with the upstream.
	asked  singleflight.Group
	panics *panics.Counter
	tokens tokenState
	rights rightState
	// omitted counts what was not asked, by kind and reason.
	omitted map[string]map[Omission]*atomic.Int64
}

// Omission is why the upstream is not asked about a token or a right. The values are labels of
// a metric.
type Omission string

const (
	// manyBad: the address has sent as many bad tokens as it may.
	manyBad Omission = "address"
	// manyBadInTotal: all addresses together have sent as many bad tokens as they may.
	manyBadInTotal Omission = "total"
	// noPlace: too many questions wait for their turn.
	noPlace Omission = "queue"
	// tooLate: the turn did not come in time.
	tooLate Omission = "time"
)

// The kinds of reviews are labels of metrics.
const (
	kindToken = "token"
	kindRight = "right"
)

// errNotAsked is the error of a question that was not asked.
var errNotAsked = errors.New("the upstream was not asked, because it is asked too much: retry")

// NewReviews makes Reviews.
func NewReviews(cfg ReviewConfig) (*Reviews, error) {
	if cfg.InFlight == 0 {
		cfg.InFlight = defaultInFlight
	}
	if cfg.Waiting == 0 {
		cfg.Waiting = defaultWaiting
	}
	if cfg.Wait == 0 {
		cfg.Wait = defaultWait
	}
	r := &Reviews{panics: cfg.Panics, tokens: newTokenState(cfg), rights: newRightState(cfg), omitted: map[string]map[Omission]*atomic.Int64{}}
	for _, kind := range []string{kindToken, kindRight} {
		r.omitted[kind] = map[Omission]*atomic.Int64{manyBad: {}, manyBadInTotal: {}, noPlace: {}, tooLate: {}}
	}
	if _, err := rand.Read(r.secret[:]); err != nil {
		return nil, fmt.Errorf("make key of answers: %w", err)
	}
	return r, nil
}

// answerKey is the key of a question and its answer. It has a fixed size, and tells nothing
// about the token.
type answerKey [sha256.Size]byte

func (r *Reviews) keyOf(kind, question string) answerKey {
	h := sha256.New()
	h.Write(r.secret[:])
	h.Write([]byte(kind))
	h.Write([]byte(question))
	return answerKey(h.Sum(nil))
}

// share calls ask once for all callers with the same key at a time. The end of one caller's
// context does not end the question. An answer may be to a question that began before the
// call.
func (r *Reviews) share(ctx context.Context, key answerKey, ask func(context.Context) (any, error)) (any, error) {
	asked := r.asked.DoChan(string(key[:]), func() (answer any, err error) {
		// The goroutine is nobody's request, and a panic there would end the process.
		err = r.panics.Guard(panics.Request, func() error {
			answer, err = ask(context.WithoutCancel(ctx))
			return err
		})
		return answer, err
	})
	select {
	case shared := <-asked:
		return shared.Val, shared.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// omit counts a question that is not asked.
func (r *Reviews) omit(kind string, why Omission) error {
	r.omitted[kind][why].Add(1)
	return errNotAsked
}

// badTokenLimits returns the limits of how many bad tokens the upstream is asked about in a
// second, for an address and for all addresses together. Good tokens count only while the
// upstream is asked about them, so that a fleet with one address is not slowed down. For the
// same reason the burst is larger than the number of questions in flight.
func badTokenLimits(cfg ReviewConfig) (address, total *ratelimit.Limiter) {
	const perAddress, all, addressBuckets = 5, 50, 4096 // perAddress and all are per second
	burst := float64(4 * cfg.InFlight)
	return ratelimit.New(ratelimit.Config{Rate: perAddress, Burst: burst, Buckets: addressBuckets}),
		ratelimit.New(ratelimit.Config{Rate: all, Burst: 4 * burst, Buckets: 1})
}
