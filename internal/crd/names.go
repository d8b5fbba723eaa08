package crd

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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

// sameNames compares names as Kubernetes does: without a list is as with an empty
// one.
func sameNames(a, b *apiextensionsv1.CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}

// NameArena makes names that outlive definitions. They lie one after another: each by
// itself would keep a page of the heap, which was at its largest when most were made.
// The zero value is ready.
type NameArena struct{ room strings.Builder }

// namesBlock is how many bytes of names lie together.
const namesBlock = 4 << 10

// Join returns one name, made of parts.
func (n *NameArena) Join(parts ...string) string {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if n.room.Cap()-n.room.Len() < size {
		n.room.Reset()
		n.room.Grow(max(size, namesBlock))
	}
	before := n.room.Len()
	for _, p := range parts {
		n.room.WriteString(p)
	}
	return n.room.String()[before:]
}
