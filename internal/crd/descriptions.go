package crd

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// withoutDescriptions drops from a schema what it says to people. Nothing that is compiled out
// of it looks at that, and it would be kept as often as there are compiled forms.
func withoutDescriptions(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.Description, s.Title, s.ExternalDocs, s.Example = "", "", nil, nil
	withoutDescriptions(s.Not)
	if s.Items != nil {
		withoutDescriptions(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		withoutDescriptions(s.AdditionalProperties.Schema)
	}
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			withoutDescriptions(&list[i])
		}
	}
	for name, property := range s.Properties {
		withoutDescriptions(&property)
		s.Properties[name] = property
	}
}
