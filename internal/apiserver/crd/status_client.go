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

// statusClient writes the status of definitions over the loopback connection. It does not
// send the spec, which such a write does not change. It asks for metadata alone as the
// answer. The controller knows the rest, which takes long to convert and encode.
// definitionWrites answers these requests.
type statusClient struct{ rest.Interface }

// metadataOnlyAccept is the Accept header by which definitionWrites knows these requests.
const metadataOnlyAccept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// UpdateStatus implements statusWriter.
func (c statusClient) UpdateStatus(ctx context.Context, full *apiextensionsv1.CustomResourceDefinition, _ metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error) {
	sent := *full
	sent.Spec = apiextensionsv1.CustomResourceDefinitionSpec{}
	answer, err := c.Put().Resource(definitionsName).Name(full.Name).SubResource("status").
		SetHeader("Accept", metadataOnlyAccept).Body(&sent).Do(ctx).Raw()
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
