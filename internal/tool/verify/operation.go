package verify

import (
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// Operation has the fields that all requests of a record have.
type Operation struct {
	Server int    // index in Config.Servers
	Client string // id of the client
	// Called and Returned are times since the start of the run: when the request was sent, and
	// when the whole answer had come.
	Called, Returned time.Duration
	// Status is 0 if there was no answer. Err says why, or has the message of a refusal.
	Status int
	Err    string
}

// hasUnknownOutcome reports whether the server may have done what was requested, or not.
func (o *Operation) hasUnknownOutcome() bool {
	return o.Status == 0 || o.Status >= http.StatusInternalServerError
}

// objectKey identifies an object of the run.
type objectKey struct {
	resource string
	watchcheck.Key
}

func (k objectKey) String() string { return k.resource + "/" + k.Name }

// verb is a way to write, as in audit logs and in rights.
type verb string

const (
	create  verb = "create"
	replace verb = "update"
	patch   verb = "patch"
	remove  verb = "delete"
)

// Write is a write of one object.
type Write struct {
	Operation
	Verb verb
	Key  objectKey
	// Value and Half are the values of the object's labels after the write, empty for a
	// deletion. No two writes of a run have the same value.
	Value string
	Half  string
	// Expected is the resource version that the object must have, or empty.
	Expected string
	// Revision and UID are from the object in the answer. Revision is 0 for a deletion, whose
	// answer has none.
	Revision int64
	UID      types.UID
}

// isAcknowledged reports whether the answer says that the write has happened.
func (w *Write) isAcknowledged() bool {
	return w.Status == http.StatusOK || w.Status == http.StatusCreated
}

// notReady is part of the message, with status 403, of admission plugins that have not loaded
// their objects yet.
const notReady = "not yet ready to handle request"

// isInconclusive reports whether the answer promises nothing: the server failed, throttled the
// request or was not ready.
func (w *Write) isInconclusive() bool {
	return w.hasUnknownOutcome() || w.Status == http.StatusTooManyRequests ||
		w.Status == http.StatusForbidden && strings.Contains(w.Err, notReady)
}

// isExpected reports whether a write may have the status of its answer.
func (w *Write) isExpected() bool {
	switch w.Status {
	case http.StatusConflict:
		return true
	case http.StatusNotFound:
		return w.Verb != create
	}
	return w.isAcknowledged() || w.isInconclusive()
}

// Object is one object of an answer. Value and Half are the values of its labels.
type Object struct {
	Key      watchcheck.Key
	Revision int64
	Value    string
	Half     string
	UID      types.UID
}

// Read is a GET or a LIST. The pages of a list are one Read.
type Read struct {
	Operation
	Request
	// Revision is the resource version of the list's first page, 0 for a GET.
	Revision int64
	Objects  []Object
	// Pages is empty for a GET.
	Pages []page
}

func (r *Read) ok() bool { return r.Status == http.StatusOK }
