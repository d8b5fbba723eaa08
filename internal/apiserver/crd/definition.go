package crd

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Definition is a row of the Catalog: the facts about a CustomResourceDefinition that are
// needed of all definitions, without their schemas. It is immutable.
type Definition struct {
	// Name is plural.group.
	Name string
	UID  types.UID
	// Revision is the definition's resource version.
	Revision int64
	Group    string
	Scope    apiextensionsv1.ResourceScope
	// Wanted are the names in the spec, Accepted the names in the status. Only accepted
	// names are served.
	Wanted, Accepted apiextensionsv1.CustomResourceDefinitionNames
	// Versions are in the order of the spec.
	Versions []Version
	// StoredVersions are the versions that objects may be stored in, by the status.
	StoredVersions []string
	// Established, NamesAccepted and Terminating are set if these conditions are True.
	Established, NamesAccepted, Terminating bool
	// EstablishedAt is when the condition Established last changed. It is zero without that
	// condition.
	EstablishedAt time.Time
	// Deleting is set if the definition has a deletion timestamp.
	Deleting bool
	// Webhook is set if a webhook converts between versions.
	Webhook bool
	// Unchecked is set if unknown fields are kept, or if there is a condition
	// NonStructuralSchema. The schemas of other definitions passed Kubernetes' validation.
	Unchecked bool
	// Spec is a hash of the stored spec. It changes with the spec, and also if another
	// version of Kubernetes encodes the same spec differently.
	Spec uint64
	// KeepsUnknown is the spec's preserveUnknownFields.
	KeepsUnknown bool
}

// Version is one version of a definition.
type Version struct {
	Name            string
	Served, Storage bool
	Deprecated      bool
	// DeprecationWarning is nil for Kubernetes' default warning.
	DeprecationWarning *string
	// Status and Scale are set if the version has that subresource.
	Status, Scale bool
	// SelectableFields are JSON paths as in the spec.
	SelectableFields []string
	// Content is a hash of this version in the spec, with its schema. Schema is a hash of the
	// schema alone.
	Content, Schema uint64
}

// Served reports whether a version is in the spec and served.
func (d *Definition) Served(version string) bool {
	v := d.Version(version)
	return v != nil && v.Served
}

// Version returns a version of the spec, or nil if there is none of that name.
func (d *Definition) Version(name string) *Version {
	for i := range d.Versions {
		if d.Versions[i].Name == name {
			return &d.Versions[i]
		}
	}
	return nil
}

// Namespaced reports whether the resource's objects live in namespaces.
func (d *Definition) Namespaced() bool { return d.Scope == apiextensionsv1.NamespaceScoped }

// StorageVersion returns the version that objects are stored in. It is "" if the spec names
// none, which validation does not allow.
func (d *Definition) StorageVersion() string {
	for _, v := range d.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}
