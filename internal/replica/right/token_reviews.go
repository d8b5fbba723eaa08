package right

import (
	"context"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"

	"github.com/millrace/millrace/internal/account/ratelimit"
)

const (
	// goodTokens and badTokens are how many tokens are remembered, by hash: 32 MB and 2 MB
	// at most.
	goodTokens = 32768
	badTokens  = 8192
	// goodTokenPeriod is how long the questions about a token that was good have turns apart
	// from those about other tokens. Agents ask more often than that.
	goodTokenPeriod = 10 * time.Minute
)

// tokenState is what Reviews know of tokens.
type tokenState struct {
	// good has *goodToken by answerKey, and bad has the keys of tokens that the upstream has
	// not accepted lately.
	good, bad *cache.LRUExpireCache
	// goodTurns are the turns of tokens that are in good, by user. otherTurns are the turns of
	// all other tokens, by address.
	goodTurns, otherTurns *turns
	// addressLimit and totalLimit bound bad tokens, of one address and of all.
	addressLimit, totalLimit *ratelimit.Limiter
}

// goodToken is a token that the upstream has accepted. It is immutable.
type goodToken struct {
	response *authenticator.Response
	// freshUntil is until when the response holds.
	freshUntil time.Time
}

func newTokenState(cfg ReviewConfig) tokenState {
	s := tokenState{
		good: cache.NewLRUExpireCache(goodTokens), bad: cache.NewLRUExpireCache(badTokens),
		goodTurns:  newTurns(turnsConfig{inFlight: cfg.InFlight, share: cfg.InFlight, waiting: cfg.Waiting, wait: cfg.Wait}),
		otherTurns: newTurns(turnsConfig{inFlight: cfg.InFlight, share: cfg.InFlight, waiting: cfg.Waiting, wait: cfg.Wait}),
	}
	s.addressLimit, s.totalLimit = badTokenLimits(cfg)
	return s
}

// tokens authenticates requests by their bearer tokens.
type tokens struct {
	*Reviews
	// review asks the upstream about a token.
	review authenticator.Token
	// ttl is how long an answer holds.
	ttl time.Duration
	// request finds the token in a request and hands it to AuthenticateToken.
	request authenticator.Request
}

// Tokens returns an authenticator of requests by their bearer tokens. review asks the upstream
// about a token, and remembers nothing. An error of review means that there was no answer.
// Answers, good and bad, hold for ttl.
func (r *Reviews) Tokens(review authenticator.Token, ttl time.Duration) authenticator.Request {
	t := &tokens{Reviews: r, review: review, ttl: ttl}
	t.request = union.New(bearertoken.New(t), websocket.NewProtocolAuthenticator(t))
	return t
}

type addressKey struct{}

// AuthenticateRequest implements authenticator.Request.
func (t *tokens) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	ctx := context.WithValue(req.Context(), addressKey{}, ratelimit.ClientOf(req.RemoteAddr))
	return t.request.AuthenticateRequest(req.WithContext(ctx))
}

// AuthenticateToken implements authenticator.Token.
func (t *tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	key := t.keyOf(kindToken, token)
	known := t.goodToken(key)
	if known != nil && time.Now().Before(known.freshUntil) {
		return known.response, true, nil
	}
	if _, refused := t.tokens.bad.Get(key); refused {
		return nil, false, nil
	}
	answer, err := t.share(ctx, key, func(ctx context.Context) (any, error) { return t.ask(ctx, key, token) })
	response, _ := answer.(*authenticator.Response)
	return response, response != nil, err
}

// goodToken returns what is known of a token that was good lately, or nil.
func (r *Reviews) goodToken(key answerKey) *goodToken {
	found, _ := r.tokens.good.Get(key)
	known, _ := found.(*goodToken)
	return known
}

// ask asks the upstream about a token in its turn, and remembers the answer. The response is
// nil for a bad token.
func (t *tokens) ask(ctx context.Context, key answerKey, token string) (*authenticator.Response, error) {
	known := t.goodToken(key)
	if known != nil && time.Now().Before(known.freshUntil) {
		return known.response, nil // another question has just been answered
	}
	address, _ := ctx.Value(addressKey{}).(string)
	class, flow := t.tokens.otherTurns, address
	if known != nil {
		class, flow = t.tokens.goodTurns, known.response.User.GetName()
	} else if why := t.tokens.exhausted(address); why != "" {
		return nil, t.omit(kindToken, why)
	}
	end, why := class.begin(flow)
	if why != "" {
		return nil, t.omit(kindToken, why)
	}
	defer end()
	if known == nil {
		if why := t.tokens.charge(address); why != "" {
			return nil, t.omit(kindToken, why)
		}
	}
	response, ok, err := t.review.AuthenticateToken(ctx, token)
	if known == nil && (ok || err != nil) {
		t.tokens.refund(address)
	}
	switch {
	case err != nil:
		return nil, err
	case ok:
		t.tokens.good.Add(key, &goodToken{response, time.Now().Add(t.ttl)}, goodTokenPeriod)
		return response, nil
	}
	t.tokens.good.Remove(key)
	t.tokens.bad.Add(key, nil, t.ttl)
	return nil, nil
}

// exhausted returns why no token of an address may wait for a turn. It returns "" if one may.
// The token is charged when its turn comes.
func (s *tokenState) exhausted(address string) Omission {
	switch {
	case !s.addressLimit.Has(address):
		return manyBad
	case !s.totalLimit.Has(""):
		return manyBadInTotal
	}
	return ""
}

// charge counts a token as bad, until it is shown not to be. It returns why there may be no
// more bad tokens, or "" if there may be.
func (s *tokenState) charge(address string) Omission {
	if _, ok := s.addressLimit.Take(address); !ok {
		return manyBad
	}
	if _, ok := s.totalLimit.Take(""); !ok {
		s.addressLimit.Return(address)
		return manyBadInTotal
	}
	return ""
}

// refund takes back the charge of a token that is not bad.
func (s *tokenState) refund(address string) {
	s.addressLimit.Return(address)
	s.totalLimit.Return("")
}

// Recheck makes the next request with the token of an Authorization header ask the upstream,
// which has just refused that token.
//
// Upstream: k8s.io/apiserver/pkg/authentication/request/bearertoken.Authenticator.AuthenticateRequest; compare at each upgrade.
func (r *Reviews) Recheck(authorization string) {
	parts := strings.SplitN(strings.TrimSpace(authorization), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return
	}
	key := r.keyOf(kindToken, parts[1])
	if known := r.goodToken(key); known != nil {
		r.tokens.good.Add(key, &goodToken{response: known.response}, goodTokenPeriod)
	}
}
