package openapi

import (
	"net/http"

	"github.com/munnerz/goautoneg"

	"github.com/millrace/millrace/internal/wire/encode"
)

// mediaType is a type that a client can ask for a document in.
type mediaType struct {
	subType  string // after "application/"
	returned string // the response's Content-Type
	form     form
}

// Both versions of OpenAPI have an older name of the protobuf type, which is not a valid
// media type. The order is Kubernetes' and decides what "*" means.
var (
	typesV2 = []mediaType{
		{"json", "application/json", v2JSON},
		{"com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", v2Proto},
		{"com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", v2Proto},
	}
	typesV3 = []mediaType{
		{"json", "application/json", v3JSON},
		{"com.github.proto-openapi.spec.v3.v1.0+protobuf", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf", v3Proto},
		{"com.github.proto-openapi.spec.v3@v1.0+protobuf", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf", v3Proto},
	}
)

// acceptClauses returns the clauses of the Accept header in their order of preference.
func acceptClauses(r *http.Request) []goautoneg.Accept {
	accept := r.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	return goautoneg.ParseAccept(accept)
}

// chooseType returns the first type that a clause asks for.
func chooseType(wanted []goautoneg.Accept, types []mediaType) (mediaType, bool) {
	for _, clause := range wanted {
		for _, t := range types {
			if (clause.Type == "application" || clause.Type == "*") && (clause.SubType == t.subType || clause.SubType == "*") {
				return t, true
			}
		}
	}
	return mediaType{}, false
}

func acceptsGzip(r *http.Request) bool { return encode.Negotiate(r.Header, encode.Gzip) == encode.Gzip }
