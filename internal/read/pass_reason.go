package read

// passReason is why a request goes to Kubernetes' handlers. The values are labels of a
// metric and are documented in docs/guarantees.md. The empty reason means that the tier
// answers.
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
	// passedAccept: the form is YAML or an indented table, or none is acceptable.
	passedAccept passReason = "accept"
	// passedAudit: the audit policy logs response bodies.
	passedAudit passReason = "audit"
	// passedOpaque: a selected object is unreadable, or the handler alters it on its way
	// out.
	passedOpaque passReason = "odd-object"
	// passedHistory: the cache no longer has the revision.
	passedHistory passReason = "history"
	// passedEncoding: an encoder failed. See failureLog.
	passedEncoding passReason = "encoding"
	// passedConversion: a webhook does not convert the object of a GET or the first objects of
	// a watch.
	passedConversion passReason = "conversion"
	// passedUpgrade: a watch over a web socket.
	passedUpgrade passReason = "upgrade"
	// passedConnection: a watch over a connection that this server has not accepted itself.
	passedConnection passReason = "connection"
)
