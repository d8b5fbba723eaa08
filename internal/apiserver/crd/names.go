package crd

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// interner shares equal strings among rows: thousands of definitions have few distinct
// groups, versions, categories and warnings. The names of a definition are its own and are
// copied: a string that was decoded may hold all of the decoded text in memory.
type interner map[string]string

// maxInterned bounds the strings, since the strings of deleted definitions stay. At the bound
// the interner begins anew.
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

// names copies n, and shares the strings that are equal in like.
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

// sameNames compares names as Kubernetes does: no list equals an empty list.
func sameNames(a, b *apiextensionsv1.CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}

// NameArena allocates names that outlive definitions, one after another in blocks. Most
// names are made while definitions are installed and the heap is at its largest. If each
// name were allocated by itself, it would keep a page of that heap from being released.
// The zero value is ready. It is not safe for concurrent use.
type NameArena struct{ block strings.Builder }

// nameBlockBytes is the size of a block.
const nameBlockBytes = 4 << 10

// Join returns the concatenation of parts.
func (n *NameArena) Join(parts ...string) string {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if n.block.Cap()-n.block.Len() < size {
		n.block.Reset()
		n.block.Grow(max(size, nameBlockBytes))
	}
	before := n.block.Len()
	for _, p := range parts {
		n.block.WriteString(p)
	}
	return n.block.String()[before:]
}
