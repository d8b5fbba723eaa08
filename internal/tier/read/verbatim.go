package read

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/sentobject"
)

// A verbatim route answers for an upstream of another version with the bytes that the upstream
// has sent. A read that these bytes do not answer is passed on, and so is one that servers of
// different versions may answer differently. The latter holds for custom resources as well. But
// their objects do not depend on the version, and are encoded as without skew. This file has
// the rules.

// Skew is what is known of the server whose objects a replica has.
type Skew struct {
	// Differs reports whether that server's minor version differs from this program's.
	Differs func() bool
	// WatchLists reports whether that server has watches that begin with all objects. False
	// also means that it is not known.
	WatchLists func() bool
}

// Verbatim is the part of a RouteConfig that verbatim routes have.
type Verbatim struct {
	// Format is how the other server has written the objects.
	Format sentobject.Format
	// Surroundings returns what that server sends around objects. It returns nil before
	// that is known.
	Surroundings func() *apifeed.Surroundings
	// Follow starts to follow the objects in the format, unless they are followed. Each read
	// calls it. It must not block.
	Follow func()
	// Protobuf is the route of the same objects in protobuf, beside this one of JSON. It is
	// nil for kinds without protobuf, and for the route of protobuf itself.
	Protobuf *Route
}

// isVerbatim reports whether objects are sent as another server has sent them.
func (r *Route) isVerbatim() bool { return r.cfg.Verbatim != nil }

// isSkewed reports whether the route answers for a server of another version.
func (r *Route) isSkewed() bool {
	return r.isVerbatim() || r.cfg.Shared.Skew != nil && r.cfg.Shared.Skew.Differs()
}

// newVerbatimForm makes a form of a verbatim route. Its format is the route's, whatever the
// key says: negotiateSkew has chosen the route.
func (r *Route) newVerbatimForm(key formKey) *encode.Form {
	return encode.NewVerbatimForm(encode.VerbatimConfig{
		Name: r.formName(key), Format: r.cfg.Verbatim.Format, Watch: key.watch, Budget: r.cfg.Shared.Budget, RecentFrames: r.cfg.Shared.RecentFrames,
		EmptyList: func() []byte {
			if known := r.cfg.Verbatim.Surroundings(); known != nil {
				return known.EmptyList
			}
			return nil
		},
	})
}

// checkSkew returns why the path or a parameter of a request has it passed on under version
// skew. It returns "" if neither does.
func (q *query) checkSkew(values url.Values) passReason {
	if !q.route.isSkewed() {
		return ""
	}
	if q.legacyWatchPath {
		return passedPath
	}
	for name := range values {
		switch {
		case name == "shardSelector":
			return passedSkewShard
		case name == "continue":
			return passedSkewPage
		case !q.isOldParameter(name):
			return passedSkewParameter
		}
	}
	return ""
}

// negotiateSkew returns why a form that was negotiated is passed on under version skew. A media
// type that only one of the versions knows may not come before the form's. On a verbatim route
// it also chooses the route of the form's format, and starts to follow its objects.
func (q *query) negotiateSkew(key formKey, accept string) passReason {
	first, _, _ := strings.Cut(accept, ",")
	first = strings.TrimSpace(first)
	protobuf := key.mediaType == runtime.ContentTypeProtobuf
	switch {
	case !q.route.isSkewed():
		return ""
	case key.as == kindTable:
		return passedSkewTable
	case key.as != "":
		return passedSkewMetadata
	case q.route.isVerbatim() && key.pretty && !q.isWatch:
		return passedSkewIndented
	case first == key.mediaType && protobuf && q.route.isVerbatim() && q.route.cfg.Verbatim.Protobuf != nil:
		q.route = q.route.cfg.Verbatim.Protobuf
	case (first == "" || first == "*/*" || first == key.mediaType) && key.mediaType == runtime.ContentTypeJSON:
	default:
		return passedAccept
	}
	if q.route.isVerbatim() {
		q.route.cfg.Verbatim.Follow()
	}
	return ""
}

// isOldParameter reports whether all versions read a parameter alike.
func (q *query) isOldParameter(name string) bool {
	switch name {
	case "pretty", "timeout", "resourceVersion":
		return true
	case "includeObject": // of tables, and others ignore it
		return true
	case bookmarkIntervalParameter, bookmarkRevisionParameter:
		return q.isWatch
	case "kind", "apiVersion":
		return false
	}
	return q.name == "" && listParameters[name]
}

// skewedWatch returns why a watch is passed on under version skew. Either the bookmarks that it
// would be sent are not known, or the server has no watches that begin with all objects.
func (q *query) skewedWatch() passReason {
	o := &q.options
	if !q.route.isVerbatim() {
		if q.route.isSkewed() && o.SendInitialEvents != nil && !q.route.cfg.Shared.Skew.WatchLists() {
			return passedSkewBookmark
		}
		return ""
	}
	known := q.route.cfg.Verbatim.Surroundings()
	switch {
	case known == nil:
		return passedLoading
	case o.SendInitialEvents != nil && known.InitialEventsEnd == nil, o.AllowWatchBookmarks && known.Bookmark == nil:
		return passedSkewBookmark
	}
	return ""
}

// skewedList returns why a LIST is passed on under version skew. Servers of different versions
// write different tokens, and do not agree whether a full page is the last.
func (q *query) skewedList(page *cache.Page, opts *storage.ListOptions) passReason {
	if !q.route.isSkewed() {
		return ""
	}
	limit := opts.Predicate.Limit
	if page.Continue != "" || limit > 0 && opts.ResourceVersion != "0" && int64(page.Count) >= limit {
		return passedSkewPage
	}
	if q.route.isVerbatim() && q.route.cfg.Verbatim.Surroundings() == nil {
		return passedLoading
	}
	return ""
}

// endSkewed records the error that ends a watch under version skew. The client is not sent the
// error: it resumes, and the other server answers in its own words.
func (s *watchSession) endSkewed(err error) {
	var failure *encodingError
	switch {
	case errors.Is(err, cache.ErrExpired):
		s.query.metrics.countExpired(s.query.route.cfg.Resource.GroupResource())
		s.account.Expired()
	case errors.As(err, &failure):
		s.query.abortEncoding(err)
	}
}

// bookmarkObject makes the object of a bookmark. On a verbatim route it is made of one that the
// other server has sent.
func (q *query) bookmarkObject(revision int64, initialEventsEnd bool) (runtime.Object, error) {
	if !q.route.isVerbatim() {
		return q.route.cfg.Objects.Bookmark(revision, initialEventsEnd)
	}
	known := q.route.cfg.Verbatim.Surroundings()
	if known == nil {
		return nil, fmt.Errorf("%w: no bookmark of the other server", encode.ErrShape)
	}
	text := known.Bookmark
	if initialEventsEnd {
		text = known.InitialEventsEnd
	}
	return encode.VerbatimObject(q.route.cfg.Verbatim.Format, text, revision)
}

// warnings returns the warnings of the route's version.
func (r *Route) warnings() []string {
	if r.isVerbatim() {
		if known := r.cfg.Verbatim.Surroundings(); known != nil {
			return known.Warnings
		}
		return nil
	}
	if r.cfg.Warning == "" {
		return nil
	}
	return []string{r.cfg.Warning}
}
