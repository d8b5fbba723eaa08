package openapi

import "k8s.io/kube-openapi/pkg/validation/spec"

// roundValues makes floats of the whole numbers among a schema's values. Kubernetes
// reads its v2 document once more before it is served, which rounds what is beyond
// 2^53; its validation compares with the same floats, so this is what a server accepts.
func roundValues(s *spec.Schema) {
	if s == nil {
		return
	}
	s.Example = asFloats(s.Example)
	if s.Enum != nil {
		s.Enum = asFloats(s.Enum).([]any)
	}
	for name, property := range s.Properties {
		roundValues(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		roundValues(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		roundValues(s.AdditionalProperties.Schema)
	}
}

// asFloats is a value with floats in place of whole numbers. It leaves what it is given
// alone.
func asFloats(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = asFloats(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, member := range v {
			all[name] = asFloats(member)
		}
		return all
	}
	return value
}
