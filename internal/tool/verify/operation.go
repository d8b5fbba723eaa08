package verify

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// Operation is what all requests of a history have.
type Operation struct {
	// Server is the index of the server that was asked, and Client the one that asked.
	Server int
	Client string
	// Called and Returned are times since the start of the run.
	Called, Returned time.Duration
	// Status is the answer's, or 0 if there was none. Then Err says why.
	Status int
	Err    string
}

// unknown reports whether the operation may or may not have happened.
func (o *Operation) unknown() bool {
	return o.Status == 0 || o.Status >= http.StatusInternalServerError
}

type objectKey struct {
	resource string
	watchcheck.Key
}

func (k objectKey) String() string { return k.resource + "/" + k.Name }

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
	// Value is what the object is after the write. It is unique, and empty for a deletion.
	Value string
	// Half is the value of the label that selectors use.
	Half string
	// Expected is the resource version that the object must have, or empty.
	Expected string
	// Revision is that of the object in the answer. The answer to a deletion has none.
	Revision int64
	// UID is that of the object in the answer.
	UID types.UID
}

// done reports whether the answer says that the write has happened.
func (w *Write) done() bool { return w.Status == http.StatusOK || w.Status == http.StatusCreated }

// notReady is what admission plugins of a server answer, with 403, until they have their
// objects.
const notReady = "not yet ready to handle request"

// troubled reports whether the answer tells of trouble at the server, and so promises nothing.
func (w *Write) troubled() bool {
	return w.unknown() || w.Status == http.StatusTooManyRequests || w.Status == http.StatusForbidden && strings.Contains(w.Err, notReady)
}

// expected reports whether the answer is one that a write may have.
func (w *Write) expected() bool {
	switch w.Status {
	case http.StatusConflict:
		return true
	case http.StatusNotFound:
		return w.Verb != create
	}
	return w.done() || w.troubled()
}

// Object is one object of an answer.
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
	// Revision is that of the list. A GET has none.
	Revision int64
	Objects  []Object
	// Pages are those of a list.
	Pages []page
}

func (r *Read) ok() bool { return r.Status == http.StatusOK }

// versionClass says which resource version a request names.
type versionClass string

const (
	unset  versionClass = "unset"
	zero   versionClass = "0"
	known  versionClass = "N"       // one that the client has seen
	ahead  versionClass = "ahead"   // one that there will be in a moment
	future versionClass = "future"  // one that there will not be for long
	gone   versionClass = "expired" // one that is compacted or never was
)

type encoding string

const (
	formJSON     encoding = "json"
	formMetadata encoding = "metadata"
	formTable    encoding = "table"
)

// selector is what a request selects within the namespace.
type selector string

const (
	selectAll   selector = "all"
	selectLabel selector = "label"
	selectField selector = "field"
)

// Request is a GET, a LIST or the beginning of a WATCH.
type Request struct {
	Verb     string
	Resource string
	// Name is that of a GET, and of a field selector.
	Name  string
	Class versionClass
	// Version is the resource version as sent.
	Version string
	Match   string
	Limit   int
	Select  selector
	// Half is the value that a label selector selects.
	Half string
	Form encoding
	// Initial asks a watch for initial events, and Bookmarks for bookmarks.
	Initial, Bookmarks bool
}

// state is the state of the read API that the request and its answer are in: a line of the
// scorecard.
func (r *Request) state(outcome string) string {
	s := fmt.Sprintf("%s version=%s", r.Verb, r.Class)
	for _, part := range []struct {
		set  bool
		text string
	}{
		{r.Match != "", " match=" + r.Match}, {r.Limit > 0, " limit"},
		{r.Select != "" && r.Select != selectAll, " selector=" + string(r.Select)},
		{r.Initial, " initial-events"}, {r.Bookmarks, " bookmarks"},
		{r.Form != "" && r.Form != formJSON, " form=" + string(r.Form)},
	} {
		if part.set {
			s += part.text
		}
	}
	return s + " → " + outcome
}
