package kube

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/storage"
)

// newDefinitionsInformer gives Kubernetes' own parts the definitions of custom
// resources, decoded as they ask for them.
func newDefinitionsInformer(stored func(schema.GroupResource) *storage.Store) *storedInformer {
	gr := apiextensionsv1.Resource("customresourcedefinitions")
	made := newStoredInformer(func() *storage.Store { return stored(gr) }, func() object { return &apiextensionsv1.CustomResourceDefinition{} })
	made.objects.scheme = apiextensionsapiserver.Scheme
	return made
}
