package crd

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// withoutDescriptions removes from a schema the texts that are for people: descriptions,
// titles, documentation and examples. Nothing that is compiled from a schema reads them,
// and each compiled form would keep a copy.
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
