package crd

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Definition is what is known of a CustomResourceDefinition without decoding
// it. It is immutable.
type Definition struct {
	// Name is plural.group.
	Name string
	UID  types.UID
	// Revision is the definition's resource version.
	Revision int64
	Group    string
	Scope    apiextensionsv1.ResourceScope
	// Wanted are the names of the spec, Accepted those of the status: only the
	// latter are served.
	Wanted, Accepted apiextensionsv1.CustomResourceDefinitionNames
	// Versions are in the order of the spec.
	Versions []Version
	// StoredVersions are those that objects may be stored in (status).
	StoredVersions []string
	// Conditions of the status that are True.
	Established, NamesAccepted, Terminating bool
	// EstablishedAt is when the condition Established last changed.
	EstablishedAt time.Time
	// Deleting definitions have a deletion timestamp.
	Deleting bool
	// Webhook says that versions are converted by a webhook.
	Webhook bool
	// Unchecked says that the schemas may not be structural, or that a condition calls
	// them so. Of others Kubernetes' validation has made sure.
	Unchecked bool
	// Spec identifies the spec as it is stored: it is another when anything in it has
	// changed, and when another version of Kubernetes wrote the same in other words.
	Spec uint64
	// KeepsUnknown is the spec's preserveUnknownFields.
	KeepsUnknown bool
}

// Version is one version of a definition.
type Version struct {
	Name            string
	Served, Storage bool
	Deprecated      bool
	// DeprecationWarning is nil for Kubernetes' own words.
	DeprecationWarning *string
	// Status and Scale are the subresources that it has.
	Status, Scale bool
	// SelectableFields are JSON paths as the spec has them.
	SelectableFields []string
	// Content identifies all of this version in the spec, its schema included.
	Content uint64
}

// Served reports whether a version is in the spec and served.
func (d *Definition) Served(version string) bool {
	v := d.Version(version)
	return v != nil && v.Served
}

// Version returns a version of the spec, nil if there is none of that name.
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

// StorageVersion is the version that objects are written in, "" if the spec
// names none, which validation does not allow.
func (d *Definition) StorageVersion() string {
	for _, v := range d.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}
