package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	apiservices "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"
)

// Tables knows how each built-in resource is printed.
type Tables struct{ printers rest.TableConvertor }

// NewTables makes the convertor that most resources share.
func NewTables() Tables {
	return Tables{printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}}
}

// Of returns what a resource's registry prints with: the printers but for
// resources whose registries have another convertor. It returns nil for those
// whose rows are not in the order of the objects.
func (t Tables) Of(gr schema.GroupResource) rest.TableConvertor {
	switch gr {
	case schema.GroupResource{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:
		return nil
	case schema.GroupResource{Resource: "limitranges"},
		schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"},
		schema.GroupResource{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:
		return rest.NewDefaultTableConvertor(gr)
	case schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}:
		// Its table does not depend on its storage.
		return &apiservices.REST{}
	}
	return t.printers
}
