package publish

import "k8s.io/kube-openapi/pkg/validation/spec"

// roundValues replaces the whole numbers among a schema's values with floats. Kubernetes
// decodes its v2 document once before it serves it, which rounds numbers beyond 2^53. Its
// validation compares with the same floats.
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

// asFloats returns a value with floats in the place of whole numbers. The argument stays
// as it is.
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
