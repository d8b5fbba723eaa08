package discovery

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
)

// form is the encoding in which a client gets a document.
type form struct {
	mediaType string
	pretty    bool
	// as is the kind of the aggregated document, and empty for other documents.
	as schema.GroupVersionKind
}

// negotiatedForm is the form that Kubernetes' endpoints would choose for a request.
type negotiatedForm struct {
	form
	// serializer encodes in the form.
	serializer runtime.Serializer
	// profile is "nopeer" if the client asks for the resources of this server alone.
	profile string
}

// negotiate chooses the form of an answer. s has the media types, and r the kinds that may be
// asked for.
func negotiate(req *http.Request, s runtime.NegotiatedSerializer, r negotiation.EndpointRestrictions) (negotiatedForm, error) {
	media, info, err := negotiation.NegotiateOutputMediaType(req, s, r)
	if err != nil {
		return negotiatedForm{}, err
	}
	n := negotiatedForm{serializer: info.Serializer, profile: media.Profile}
	n.mediaType = info.MediaType
	n.pretty = info.PrettySerializer != nil && info.Serializer == info.PrettySerializer
	if media.Convert != nil {
		n.as = *media.Convert
	}
	return n, nil
}

// contentType returns the Content-Type of answers in the form.
func (f form) contentType() string {
	name := f.mediaType
	if !f.as.Empty() {
		name += ";g=" + f.as.Group + ";v=" + f.as.Version + ";as=" + f.as.Kind
	}
	return name
}

// accept returns the Accept header that asks for this form alone.
func (f form) accept() string {
	if f.pretty {
		return f.contentType() + ";pretty=1"
	}
	return f.contentType()
}

// routable reports whether Kubernetes' router for built-in groups would pass a request
// with this Accept header to a handler. One of its media types must be served, or be */*:
// the router knows no other ranges. For CBOR it returns false: a feature gate decides there.
//
// Upstream: github.com/emicklei/go-restful/v3.Route.matchesAccept; compare at each upgrade.
func routable(accept string, s runtime.NegotiatedSerializer) bool {
	if accept == "" {
		return true
	}
	if strings.Contains(accept, "cbor") {
		return false
	}
	for mediaType := range strings.SplitSeq(accept, ",") {
		mediaType, _, _ = strings.Cut(mediaType, ";")
		mediaType = strings.Trim(mediaType, " ")
		if mediaType == "*/*" {
			return true
		}
		for _, info := range s.SupportedMediaTypes() {
			if mediaType == info.MediaType {
				return true
			}
		}
	}
	return false
}
