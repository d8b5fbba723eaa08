package discovery

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
)

// form is what a client gets a document as.
type form struct {
	mediaType string
	pretty    bool
	// as is the kind of an aggregated document, empty for others.
	as schema.GroupVersionKind
}

// negotiatedForm is the form that Kubernetes' endpoints would choose.
type negotiatedForm struct {
	form
	// serializer is the form's.
	serializer runtime.Serializer
	// profile is "nopeer" where a client wants to know of one server only.
	profile string
}

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

// contentType is how the form is named in an answer.
func (f form) contentType() string {
	name := f.mediaType
	if !f.as.Empty() {
		name += ";g=" + f.as.Group + ";v=" + f.as.Version + ";as=" + f.as.Kind
	}
	return name
}

// accept asks for just this form.
func (f form) accept() string {
	if f.pretty {
		return f.contentType() + ";pretty=1"
	}
	return f.contentType()
}

// routable reports whether Kubernetes' router for built-in groups, which knows
// no ranges but */*, would hand the request to a handler: one of the words must
// be a media type that it serves. CBOR is served behind a feature gate only.
func routable(accept string, s runtime.NegotiatedSerializer) bool {
	if accept == "" {
		return true
	}
	if strings.Contains(accept, "cbor") {
		return false
	}
	for word := range strings.SplitSeq(accept, ",") {
		word, _, _ = strings.Cut(word, ";")
		word = strings.Trim(word, " ")
		if word == "*/*" {
			return true
		}
		for _, info := range s.SupportedMediaTypes() {
			if word == info.MediaType {
				return true
			}
		}
	}
	return false
}
