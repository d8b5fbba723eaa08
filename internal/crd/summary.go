package crd

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// interner shares equal strings among rows: thousands of definitions have few
// distinct groups, versions, categories and warnings. What is a definition's own,
// its names, is copied: it may share memory with all of what it was decoded from.
type interner map[string]string

// maxInterned bounds what is remembered of definitions that are gone.
const maxInterned = 10_000

func (i interner) one(s string) string {
	if known, ok := i[s]; ok {
		return known
	}
	if len(i) >= maxInterned {
		clear(i)
	}
	own := strings.Clone(s)
	i[own] = own
	return own
}

func (i interner) all(list []string) []string {
	if list == nil {
		return nil
	}
	shared := make([]string, len(list))
	for n, s := range list {
		shared[n] = i.one(s)
	}
	return shared
}

// names copies names that are mostly those of another set.
func (i interner) names(n, like *apiextensionsv1.CustomResourceDefinitionNames) apiextensionsv1.CustomResourceDefinitionNames {
	own := func(s, other string) string {
		if s == other {
			return other
		}
		return strings.Clone(s)
	}
	copied := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: own(n.Plural, like.Plural), Singular: own(n.Singular, like.Singular),
		Kind: own(n.Kind, like.Kind), ListKind: own(n.ListKind, like.ListKind), Categories: i.all(n.Categories),
	}
	if copied.ShortNames = like.ShortNames; !slices.Equal(n.ShortNames, like.ShortNames) {
		copied.ShortNames = nil
		for _, short := range n.ShortNames {
			copied.ShortNames = append(copied.ShortNames, strings.Clone(short))
		}
	}
	return copied
}

// Summarize makes a definition's row.
func Summarize(full *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	return summarize(full, interner{})
}

func summarize(full *apiextensionsv1.CustomResourceDefinition, share interner) (*Definition, error) {
	revision, err := strconv.ParseInt(full.ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read resource version of %s: %w", full.Name, err)
	}
	d := &Definition{
		Name: strings.Clone(full.Name), UID: types.UID(strings.Clone(string(full.UID))), Revision: revision,
		Group: share.one(full.Spec.Group), Scope: apiextensionsv1.ResourceScope(share.one(string(full.Spec.Scope))),
		Wanted:         share.names(&full.Spec.Names, &apiextensionsv1.CustomResourceDefinitionNames{}),
		StoredVersions: share.all(full.Status.StoredVersions),
		NamesAccepted:  apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.NamesAccepted),
		Established:    apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Established),
		Terminating:    apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Terminating),
		Deleting:       full.DeletionTimestamp != nil,
		Webhook:        full.Spec.Conversion != nil && full.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter,
	}
	d.Unchecked = full.Spec.PreserveUnknownFields || apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.NonStructuralSchema) != nil
	d.Accepted = share.names(&full.Status.AcceptedNames, &d.Wanted)
	if c := apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established); c != nil {
		d.EstablishedAt = c.LastTransitionTime.Time
	}
	rest := full.Spec
	rest.Versions = nil
	sum, err := digest(rest)
	if err != nil {
		return nil, fmt.Errorf("summarize %s: %w", full.Name, err)
	}
	for i := range full.Spec.Versions {
		v, err := share.version(&full.Spec.Versions[i])
		if err != nil {
			return nil, fmt.Errorf("summarize %s: %w", full.Name, err)
		}
		d.Versions = append(d.Versions, v)
		sum = mix(sum, v.Content)
	}
	d.Spec = sum
	return d, nil
}

func (i interner) version(full *apiextensionsv1.CustomResourceDefinitionVersion) (Version, error) {
	v := Version{Name: i.one(full.Name), Served: full.Served, Storage: full.Storage, Deprecated: full.Deprecated}
	if full.DeprecationWarning != nil {
		warning := i.one(*full.DeprecationWarning)
		v.DeprecationWarning = &warning
	}
	if full.Subresources != nil {
		v.Status, v.Scale = full.Subresources.Status != nil, full.Subresources.Scale != nil
	}
	for _, field := range full.SelectableFields {
		v.SelectableFields = append(v.SelectableFields, i.one(field.JSONPath))
	}
	var err error
	v.Content, err = digest(full)
	return v, err
}

// digest identifies a part of a spec. Nil and empty lists, which mean the same,
// encode the same.
func digest(part any) (uint64, error) {
	encoded, err := json.Marshal(part)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256(encoded)
	return binary.LittleEndian.Uint64(sum[:]), nil
}

// mix makes the digest of two, in order.
func mix(a, b uint64) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b))
	return binary.LittleEndian.Uint64(sum[:])
}

// sameNames compares names as Kubernetes does: without a list is as with an empty
// one.
func sameNames(a, b *apiextensionsv1.CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}
