package read

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
)

// A verbatim route answers for a server of another version with the bytes that this server
// has sent. What these bytes do not have is passed on, and so is what servers of different
// versions may do differently. This file has the rules.

// isVerbatim reports whether objects are sent as another server has sent them.
func (r *Route) isVerbatim() bool { return r.cfg.Verbatim != nil }

// newVerbatimForm makes a form of a verbatim route. It returns nil for all but JSON in one
// line.
func (r *Route) newVerbatimForm(key formKey) *encode.Form {
	if key.verbatimReason() != "" {
		return nil
	}
	return encode.NewVerbatimForm(encode.VerbatimConfig{
		Name: r.formName(key), Watch: key.watch, Budget: r.cfg.Shared.Budget, RecentFrames: r.cfg.Shared.RecentFrames,
		EmptyList: func() []byte {
			if known := r.cfg.Verbatim(); known != nil {
				return known.EmptyList
			}
			return nil
		},
	})
}

// verbatimReason returns why a verbatim route does not have the form, "" if it has.
func (key formKey) verbatimReason() passReason {
	switch {
	case key.as == kindTable:
		return passedSkewTable
	case key.as != "":
		return passedSkewMetadata
	case key.mediaType == runtime.ContentTypeProtobuf:
		return passedSkewProtobuf
	case key.mediaType != runtime.ContentTypeJSON:
		return passedAccept
	case key.pretty:
		return passedSkewIndented
	}
	return ""
}

// checkVerbatim returns why the path or a parameter of a request to a verbatim route has it
// passed on, "" if neither does.
func (q *query) checkVerbatim(values url.Values) passReason {
	if q.legacyWatchPath {
		return passedPath
	}
	for name := range values {
		switch {
		case name == "shardSelector":
			return passedSkewShard
		case name == "continue":
			return passedSkewPage
		case !q.isVerbatimParameter(name):
			return passedSkewParameter
		}
	}
	return ""
}

// negotiateVerbatim returns why a verbatim route does not have the form that was negotiated.
// A media type that only one of the versions knows may not come before JSON.
func (key formKey) negotiateVerbatim(accept string) passReason {
	if reason := key.verbatimReason(); reason != "" {
		return reason
	}
	first, _, _ := strings.Cut(accept, ",")
	switch strings.TrimSpace(first) {
	case "", "*/*", runtime.ContentTypeJSON:
		return ""
	}
	return passedAccept
}

// isVerbatimParameter reports whether all versions read a parameter alike.
func (q *query) isVerbatimParameter(name string) bool {
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

// verbatimWatch returns why a watch of a verbatim route is passed on: the bookmarks that it
// will be sent are not known, or the server has no watches that begin with all objects.
func (q *query) verbatimWatch() passReason {
	if !q.route.isVerbatim() {
		return ""
	}
	known, o := q.route.cfg.Verbatim(), &q.options
	switch {
	case known == nil:
		return passedLoading
	case o.SendInitialEvents != nil && known.InitialEventsEnd == nil, o.AllowWatchBookmarks && known.Bookmark == nil:
		return passedSkewBookmark
	}
	return ""
}

// verbatimList returns why a LIST of a verbatim route is passed on. Servers of different
// versions write different tokens, and do not agree whether a full page is the last.
func (q *query) verbatimList(page *cache.Page, opts *storage.ListOptions) passReason {
	if !q.route.isVerbatim() {
		return ""
	}
	limit := opts.Predicate.Limit
	if page.Continue != "" || limit > 0 && opts.ResourceVersion != "0" && int64(page.Count) >= limit {
		return passedSkewPage
	}
	if q.route.cfg.Verbatim() == nil {
		return passedLoading
	}
	return ""
}

// verbatimError returns why an error is passed on: another version may use other words.
func (q *query) verbatimError(err error) passReason {
	if err != nil && q.route.isVerbatim() {
		return passedSkewError
	}
	return ""
}

// endVerbatim notes the error that ends a watch of a verbatim route. The client is not told:
// it resumes, and the other server answers in its own words.
func (s *watchSession) endVerbatim(err error) {
	var failure *encodingError
	switch {
	case errors.Is(err, cache.ErrExpired):
		s.query.metrics.countExpired(s.query.route.cfg.Resource.GroupResource())
		s.account.Expired()
	case errors.As(err, &failure):
		s.query.abortEncoding(err)
	}
}

// bookmarkObject makes the object of a bookmark.
func (q *query) bookmarkObject(revision int64, initialEventsEnd bool) (runtime.Object, error) {
	if !q.route.isVerbatim() {
		return q.route.cfg.Objects.Bookmark(revision, initialEventsEnd)
	}
	known := q.route.cfg.Verbatim()
	if known == nil {
		return nil, fmt.Errorf("%w: no bookmark of the other server", encode.ErrShape)
	}
	text := known.Bookmark
	if initialEventsEnd {
		text = known.InitialEventsEnd
	}
	return encode.VerbatimObject(text, revision)
}

// warnings are the warnings of the route's version.
func (r *Route) warnings() []string {
	if r.isVerbatim() {
		if known := r.cfg.Verbatim(); known != nil {
			return known.Warnings
		}
		return nil
	}
	if r.cfg.Warning == "" {
		return nil
	}
	return []string{r.cfg.Warning}
}
