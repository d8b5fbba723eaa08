package crd

import (
	"context"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// statusWriter writes the status of definitions.
type statusWriter interface {
	// UpdateStatus returns what was written.
	UpdateStatus(ctx context.Context, full *apiextensionsv1.CustomResourceDefinition, opts metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error)
}

// statusClient has the server answer with metadata alone: the rest of a definition
// is known to who has written its status, and takes long to convert and encode.
type statusClient struct{ rest.Interface }

const metadataAlone = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// UpdateStatus implements statusWriter.
func (c statusClient) UpdateStatus(ctx context.Context, full *apiextensionsv1.CustomResourceDefinition, _ metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error) {
	answer, err := c.Put().Resource("customresourcedefinitions").Name(full.Name).SubResource("status").
		SetHeader("Accept", metadataAlone).Body(full).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var of metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer, &of); err != nil {
		return nil, fmt.Errorf("read metadata of definition %s: %w", full.Name, err)
	}
	written := *full
	written.ObjectMeta = of.ObjectMeta
	return &written, nil
}
