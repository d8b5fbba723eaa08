package kube

import (
	"sync"

	definitions "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	apiservices "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"
)

// Tables has the table printer of each built-in resource.
type Tables struct{ printers rest.TableConvertor }

// NewTables makes the convertor that most resources share.
func NewTables() Tables {
	return Tables{printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}}
}

// sharedTables are the printers of all routes, which are made when the first route is.
var sharedTables = sync.OnceValue(NewTables)

// Of returns the table convertor of a resource's registry: the shared printers, except
// for resources whose registry has another one. It returns nil for resources whose rows
// are not in the order of the objects, or depend on more than their object and its age:
//
//   - flow schemas are sorted;
//   - of all storage classes in a list, only the newest default is marked;
//   - cells of an eviction say whether a time is in the past.
//
// Each registry chooses its convertor in its NewREST. A test compares the columns of all
// resources with the columns of a stock server. It does not see the order of rows, nor
// what they depend on.
//
// Upstream: k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema/storage.NewREST; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/printers/internalversion.AddHandlers; compare at each upgrade.
func (t Tables) Of(gr schema.GroupResource) rest.TableConvertor {
	switch gr {
	case schema.GroupResource{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
		schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"},
		schema.GroupResource{Group: "lifecycle.k8s.io", Resource: "evictions"}:
		return nil
	case schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:
		return definitions.New()
	case schema.GroupResource{Resource: "limitranges"},
		schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"},
		schema.GroupResource{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:
		return rest.NewDefaultTableConvertor(gr)
	case schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}:
		// Its table does not depend on its storage, which is missing here.
		return &apiservices.REST{}
	}
	return t.printers
}
