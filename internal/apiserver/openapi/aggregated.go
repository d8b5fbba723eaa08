package openapi

import (
	"fmt"
	"net/http"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// aggregatedSpec is the v2 document of the next handler, as JSON. In it Kubernetes' aggregator
// has merged its own document and the documents of services, by priority. It is not kept,
// because it is needed only to make a base.
type aggregatedSpec struct {
	tag   string
	plain []byte
}

// fetchAggregated asks the next handler for its document. The result is empty if that fails.
func fetchAggregated(next http.Handler) *aggregatedSpec {
	answer, err := fetch(next, "/openapi/v2")
	if err != nil {
		return &aggregatedSpec{} // there is no aggregator
	}
	found := &aggregatedSpec{tag: answer.Header().Get("Etag"), plain: answer.Data()}
	if found.tag == "" {
		found.tag = newContentHash(string(found.plain)).tag()
	}
	return found
}

// decode returns the spec in a list, which is empty if there is none.
func (r *aggregatedSpec) decode() ([]*spec.Swagger, error) {
	if r.plain == nil {
		return nil, nil
	}
	out := &spec.Swagger{}
	if err := out.UnmarshalJSON(r.plain); err != nil {
		return nil, fmt.Errorf("decode OpenAPI v2 of the aggregation layer: %w", err)
	}
	return []*spec.Swagger{out}, nil
}
