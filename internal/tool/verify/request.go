package verify

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// versionClass says which resource version a request names.
type versionClass string

// The classes, as the scorecard names them.
const (
	versionUnset   versionClass = "unset"
	versionZero    versionClass = "0"
	versionSeen    versionClass = "N"       // one that the client has seen
	versionAhead   versionClass = "ahead"   // one that there will be in a moment
	versionFuture  versionClass = "future"  // one that no server will have during the run
	versionExpired versionClass = "expired" // one that is compacted or never was
)

// Values of resourceVersionMatch.
const (
	matchExact        = string(metav1.ResourceVersionMatchExact)
	matchNotOlderThan = string(metav1.ResourceVersionMatchNotOlderThan)
)

// encoding is what a request wants objects to be encoded as, always in JSON.
type encoding string

const (
	encodingJSON     encoding = "json" // whole objects
	encodingMetadata encoding = "metadata"
	encodingTable    encoding = "table"
)

// selector says by what a request selects objects within the namespace.
type selector string

const (
	selectAll   selector = "all"
	selectLabel selector = "label"
	selectField selector = "field"
)

// Request is a GET, a LIST or the start of a WATCH.
type Request struct {
	Verb     string // "get", "list" or "watch"
	Resource string
	// Name is the object of a GET, or of a field selector.
	Name  string
	Class versionClass
	// Version is the resource version as sent, and Match its resourceVersionMatch. Each may be
	// empty.
	Version string
	Match   string
	// Limit is the number of objects in a page, 0 for no limit.
	Limit  int
	Select selector
	// Half is the value of halfLabel that a label selector selects.
	Half     string
	Encoding encoding
	// Initial requests initial events in a watch, and Bookmarks bookmarks.
	Initial, Bookmarks bool
}

// stateName returns the line of the scorecard for the request and the outcome of its answer.
func (req *Request) stateName(outcome string) string {
	s := fmt.Sprintf("%s version=%s", req.Verb, req.Class)
	for _, part := range []struct {
		set  bool
		text string
	}{
		{req.Match != "", " match=" + req.Match}, {req.Limit > 0, " limit"},
		{req.Select != "" && req.Select != selectAll, " selector=" + string(req.Select)},
		{req.Initial, " initial-events"}, {req.Bookmarks, " bookmarks"},
		{req.Encoding != "" && req.Encoding != encodingJSON, " encoding=" + string(req.Encoding)},
	} {
		if part.set {
			s += part.text
		}
	}
	return s + " → " + outcome
}

// text returns the request as a person writes it.
func (req *Request) text() string {
	query, _ := url.QueryUnescape(req.query().Encode())
	text := req.Verb + " " + req.Resource
	if req.Verb == "get" {
		text += "/" + req.Name
	}
	if req.Initial {
		query = strings.TrimPrefix(query+"&sendInitialEvents=true", "&")
	}
	if query != "" {
		text += "?" + query
	}
	if req.Encoding == encodingMetadata || req.Encoding == encodingTable {
		text += " as " + string(req.Encoding)
	}
	return text
}

// path returns the path of the object that a request is for, or of the collection.
func (r *run) path(req *Request) string {
	collection := r.fixture.resource(req.Resource).collection
	if req.Verb == "get" {
		return collection + "/" + url.PathEscape(req.Name)
	}
	return collection
}

// query returns the parameters that LISTs and watches have in common. A watch adds its own.
func (req *Request) query() url.Values {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("resourceVersion", req.Version)
	set("resourceVersionMatch", req.Match)
	if req.Limit > 0 {
		set("limit", strconv.Itoa(req.Limit))
	}
	switch req.Select {
	case selectLabel:
		set("labelSelector", halfLabel+"="+req.Half)
	case selectField:
		set("fieldSelector", "metadata.name="+req.Name)
	}
	return query
}

// header returns the Accept header for the encoding.
func (req *Request) header() http.Header {
	list := ""
	if req.Verb == "list" {
		list = "List"
	}
	switch req.Encoding {
	case encodingMetadata:
		return http.Header{"Accept": {"application/json;as=PartialObjectMetadata" + list + ";g=meta.k8s.io;v=v1"}}
	case encodingTable:
		return http.Header{"Accept": {"application/json;as=Table;g=meta.k8s.io;v=v1"}}
	}
	return http.Header{"Accept": {"application/json"}}
}

// selection returns what the request selects, for comparisons with the truth.
func (req *Request) selection(namespace string) watchcheck.Selection {
	selection := watchcheck.Selection{Namespace: namespace}
	switch req.Select {
	case selectLabel:
		selection.Labels = labels.SelectorFromSet(labels.Set{halfLabel: req.Half})
	case selectField:
		selection.Fields = fields.OneTermEqualSelector("metadata.name", req.Name)
	}
	return selection
}

// watchStart returns the request for a watch in the words of package watchcheck.
func (req *Request) watchStart(namespace string) watchcheck.Start {
	start := watchcheck.Start{
		Selection: req.selection(namespace), Bookmarks: req.Bookmarks,
		Initial: req.Initial || req.Class == versionUnset || req.Class == versionZero, End: req.Initial && req.Bookmarks,
	}
	if req.Class == versionSeen || req.Class == versionExpired || req.Class == versionAhead {
		start.Revision, _ = strconv.ParseInt(req.Version, 10, 64)
	}
	return start
}
