package openapi

import (
	"fmt"
	"net/http"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// aggregatedSpec is the v2 document of the next handler: what Kubernetes' aggregator has
// merged of itself and of the services behind it, in their order of priority. It
// is not kept, for it is seldom needed: to make a base.
type aggregatedSpec struct {
	tag   string
	plain []byte
}

// fetchAggregated asks for it; one that has none is empty.
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
