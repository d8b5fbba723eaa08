package crd

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ageColumn returns the column of tables for which a definition has no columns.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.serveDefaultColumnsIfEmpty; compare at each upgrade.
func ageColumn() apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{
		Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
	}
}

// columnsOf returns the columns of tables of a version.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.getColumnsForVersion; compare at each upgrade.
func columnsOf(v *apiextensionsv1.CustomResourceDefinitionVersion) []apiextensionsv1.CustomResourceColumnDefinition {
	if len(v.AdditionalPrinterColumns) > 0 {
		return v.AdditionalPrinterColumns
	}
	return []apiextensionsv1.CustomResourceColumnDefinition{ageColumn()}
}

// scaleColumns returns the columns of a Scale. The paths are paths in the Scale, and not
// in the custom resource.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.getScaleColumnsForVersion; compare at each upgrade.
func scaleColumns(v *apiextensionsv1.CustomResourceDefinitionVersion) []apiextensionsv1.CustomResourceColumnDefinition {
	var columns []apiextensionsv1.CustomResourceColumnDefinition
	if v.Subresources != nil && v.Subresources.Scale != nil {
		if v.Subresources.Scale.SpecReplicasPath != "" {
			columns = append(columns, apiextensionsv1.CustomResourceColumnDefinition{
				Name: "Desired", Type: "integer", Description: "Number of desired replicas", JSONPath: ".spec.replicas",
			})
		}
		if v.Subresources.Scale.StatusReplicasPath != "" {
			columns = append(columns, apiextensionsv1.CustomResourceColumnDefinition{
				Name: "Available", Type: "integer", Description: "Number of actual replicas", JSONPath: ".status.replicas",
			})
		}
	}
	return append(columns, ageColumn())
}
