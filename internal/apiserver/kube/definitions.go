package kube

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/tier/storage"
)

// newDefinitionsInformer makes an informer of the definitions of custom resources for
// Kubernetes' own components. It decodes a definition when they ask for it.
func newDefinitionsInformer(stored func(schema.GroupResource) *storage.Store) *storedInformer {
	gr := apiextensionsv1.Resource("customresourcedefinitions")
	made := newStoredInformer(func() *storage.Store { return stored(gr) }, objectReader{empty: func() object { return &apiextensionsv1.CustomResourceDefinition{} }})
	made.objects.scheme = apiextensionsapiserver.Scheme
	return made
}
