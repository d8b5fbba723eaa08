package read

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	internalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1beta1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"

	"github.com/millrace/millrace/internal/wire/encode"
)

const (
	kindTable    = "Table"
	kindMetadata = "PartialObjectMetadata"
	kindList     = "PartialObjectMetadataList"
)

// negotiate chooses the form and the content coding, by the rules of Kubernetes' endpoints.
func (q *query) negotiate(req *http.Request) passReason {
	cfg := &q.route.cfg
	if !q.routable(req.Header.Get("Accept")) {
		return passedAccept
	}
	media, info, err := negotiation.NegotiateOutputMediaType(req, cfg.Serializer, endpoint{q.route})
	if err != nil {
		return passedAccept
	}
	key := formKey{mediaType: info.MediaType, pretty: info.PrettySerializer != nil && info.Serializer == info.PrettySerializer}
	if media.Convert != nil {
		key.as, key.version = media.Convert.Kind, media.Convert.Version
	}
	wanted := kindList
	if q.name != "" || q.isWatch {
		wanted = kindMetadata
	}
	switch key.as {
	case "", wanted:
		if key.as == kindList && key.version == metav1beta1.SchemeGroupVersion.Version && key.mediaType == runtime.ContentTypeProtobuf {
			return passedAccept // its items come before its metadata, and lists begin with theirs
		}
	case kindTable:
		var ok bool
		if key.include, ok = includeObject(req.URL.RawQuery); !ok {
			return passedParameter
		}
	default:
		return passedAccept
	}
	if reason := q.negotiateSkew(key, req.Header.Get("Accept")); reason != "" {
		return reason
	}
	if q.isWatch {
		return q.negotiateWatch(key, req)
	}
	made, err := q.route.form(key)
	if err != nil {
		return q.passOnForm(q.route.formName(key), err)
	}
	if q.form = made.form; q.form == nil {
		return passedAccept
	}
	q.routeForm = made
	if cfg.Shared.Compress {
		q.encoding = encode.Negotiate(req.Header, encode.Zstd, encode.Gzip)
	}
	return ""
}

// negotiateWatch chooses the forms of a watch's frames, which are never indented. A watch of
// tables has two: the first frame has the columns, the others leave them out.
func (q *query) negotiateWatch(key formKey, req *http.Request) passReason {
	key.watch, key.pretty = true, false
	if key.as == kindTable {
		made, err := q.route.form(key)
		if err != nil {
			return q.passOnForm(q.route.formName(key), err)
		}
		q.firstForm, key.noColumns = made.form, true
	}
	made, err := q.route.form(key)
	if err != nil {
		return q.passOnForm(q.route.formName(key), err)
	}
	q.routeForm = made
	if q.form = made.form; q.form == nil {
		return passedAccept
	}
	if q.compressesWatch(req.Header) {
		q.encoding = encode.Negotiate(req.Header, encode.Gzip)
	}
	return ""
}

// endpoint says to which kinds a resource's handlers can transform objects.
type endpoint struct{ route *Route }

var _ negotiation.EndpointRestrictions = endpoint{}

// AllowsMediaTypeTransform implements negotiation.EndpointRestrictions.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.RequestScope.AllowsMediaTypeTransform; compare at each upgrade.
func (e endpoint) AllowsMediaTypeTransform(mimeType, mimeSubType string, target *schema.GroupVersionKind) bool {
	if target == nil {
		return e.route.cfg.Custom == nil || slices.ContainsFunc(e.route.cfg.Custom.Standard, func(info runtime.SerializerInfo) bool {
			return info.MediaTypeType == mimeType && info.MediaTypeSubType == mimeSubType
		})
	}
	if gv := target.GroupVersion(); gv != metav1.SchemeGroupVersion && gv != metav1beta1.SchemeGroupVersion {
		return false
	}
	switch target.Kind {
	case kindTable:
		return mimeType == "application" && (mimeSubType == "json" || mimeSubType == "yaml")
	case kindMetadata, kindList:
		return true
	}
	return false
}

// AllowsServerVersion implements negotiation.EndpointRestrictions.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.RequestScope.AllowsServerVersion; compare at each upgrade.
func (endpoint) AllowsServerVersion(version string) bool { return version == metaVersion.Version }

// AllowsStreamSchema implements negotiation.EndpointRestrictions.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.RequestScope.AllowsStreamSchema; compare at each upgrade.
func (endpoint) AllowsStreamSchema(s string) bool { return s == "watch" }

// includeObject parses the only option of tables. It returns false if that is malformed.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.optionsForTransform; compare at each upgrade.
func includeObject(raw string) (metav1.IncludeObjectPolicy, bool) {
	if !strings.Contains(raw, "includeObject") && !strings.Contains(raw, "%") {
		return "", true
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", false
	}
	options := &metav1.TableOptions{}
	if err := internalversionscheme.ParameterCodec.DecodeParameters(values, metav1.SchemeGroupVersion, options); err != nil {
		return "", false
	}
	if len(validation.ValidateTableOptions(options)) > 0 {
		return "", false
	}
	if options.IncludeObject == metav1.IncludeMetadata {
		options.IncludeObject = ""
	}
	return options.IncludeObject, true
}

// routable reports whether Kubernetes' router would hand the request to a handler. The router
// knows no media ranges but */*. So one of the words must be */* or a media type that the
// version serves. Requests for custom resources pass no router.
//
// Upstream: github.com/emicklei/go-restful/v3.Route.matchesAccept; compare at each upgrade.
func (q *query) routable(accept string) bool {
	if accept == "" || q.route.cfg.Custom != nil {
		return true
	}
	for word := range strings.SplitSeq(accept, ",") {
		word, _, _ = strings.Cut(word, ";")
		word = strings.Trim(word, " ")
		if word == "*/*" {
			return true
		}
		for _, mediaType := range q.route.mediaTypes {
			if word == mediaType {
				return true
			}
		}
	}
	return false
}

// mediaTypes returns the media types that a serializer supports.
func mediaTypes(s runtime.NegotiatedSerializer) []string {
	var names []string
	for _, info := range s.SupportedMediaTypes() {
		names = append(names, info.MediaType)
	}
	return names
}
