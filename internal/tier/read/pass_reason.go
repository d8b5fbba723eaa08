package read

import (
	"errors"

	"github.com/millrace/millrace/internal/tier/cache"
)

// passReason is why a request goes to Kubernetes' handlers, or to a replica's upstream. The
// values are labels of a metric and are documented in docs/guarantees.md. The empty reason
// means that the tier answers.
type passReason string

const (
	// passNotRead is for requests that are no GET, LIST or WATCH of a resource. They are
	// not counted.
	passNotRead passReason = "not-read"

	// passedResource: the resource is not stored, or its definition is changing.
	passedResource passReason = "resource"
	// passedPath: the path is not the canonical one.
	passedPath passReason = "path"
	// passedParameter: a parameter is malformed, or belongs to another feature.
	passedParameter passReason = "parameter"
	// passedSelector: the attributes of objects do not answer the selector.
	passedSelector passReason = "selector"
	// passedAccept: the tier does not make the form, such as YAML or an indented table, or no
	// form is acceptable.
	passedAccept passReason = "accept"
	// passedAudit: the audit policy logs response bodies.
	passedAudit passReason = "audit"
	// passedOpaque: an object that the answer may need is opaque. A watch may need every
	// object of its resource.
	passedOpaque passReason = "odd-object"
	// passedHistory: the cache lacks the revision, or the events after it.
	passedHistory passReason = "history"
	// passedLoading: the cache does not hold the resource yet.
	passedLoading passReason = "loading"
	// passedUnproven: the cache could not be shown in time to be as new as the request asks.
	passedUnproven passReason = "unproven"
	// passedEncoding: an encoder failed. See failureLog.
	passedEncoding passReason = "encoding"
	// passedConversion: a webhook does not convert the object of a GET or the first objects of
	// a watch.
	passedConversion passReason = "conversion"
	// passedUpgrade: a watch over a web socket.
	passedUpgrade passReason = "upgrade"
	// passedConnection: a watch over a connection that this server has not accepted itself.
	passedConnection passReason = "connection"

	// The reasons below are for version skew, in front of a server of another version.

	// passedSkewTable, passedSkewMetadata and passedSkewIndented: the form would have to be made
	// of what the other server has sent.
	passedSkewTable    passReason = "skew-table"
	passedSkewMetadata passReason = "skew-metadata"
	passedSkewIndented passReason = "skew-indented"
	// passedSkewParameter: one of the versions may read the parameter in another way.
	passedSkewParameter passReason = "skew-parameter"
	// passedSkewPage: the answer is a page of a list, whose tokens differ.
	passedSkewPage passReason = "skew-page"
	// passedSkewShard: the request is for a shard.
	passedSkewShard passReason = "skew-shard"
	// passedSkewError: the answer is an error, whose words may differ.
	passedSkewError passReason = "skew-error"
	// passedSkewBookmark: the other server has sent no bookmark of the kind that the watch
	// would be sent.
	passedSkewBookmark passReason = "skew-bookmark"
)

// passReasonOf returns the reason to pass on a read for which Objects has returned err, which
// may be nil. It returns "" if there is no error, or if the error is the answer. Under version
// skew no error is an answer, because the other server may use other words.
//
// While a read waited, its definition may have changed. Objects that are newer than the
// definition are left to the next definition.
func (q *query) passReasonOf(err error) passReason {
	switch {
	case q.route.isRetired():
		return passedResource
	case errors.Is(err, cache.ErrExpired):
		return passedHistory
	case errors.Is(err, cache.ErrNotReady):
		return passedLoading
	case errors.Is(err, cache.ErrUnproven):
		return passedUnproven
	case err != nil && q.route.isSkewed():
		return passedSkewError
	}
	return ""
}
