package fill

import "strings"

// Kind names one of the resources that fill writes, in the plural form that
// API paths use.
type Kind string

// The kinds, in the order in which they are written: what others refer to
// comes first.
const (
	KindNamespace      Kind = "namespaces"
	KindServiceAccount Kind = "serviceaccounts"
	KindNode           Kind = "nodes"
	KindConfigMap      Kind = "configmaps"
	KindSecret         Kind = "secrets"
	KindPod            Kind = "pods"
)

// Labels that every written object carries or, but for the first, every pod.
const (
	// LabelSeed marks an object as made by fill; its value is the seed.
	LabelSeed = "millrace.io/fill"
	// LabelSlice is shared by exactly SlicePods pods: the replicas of one
	// ReplicaSet, which live in one namespace.
	LabelSlice = "bench.millrace.io/slice"
	// LabelGroup is shared by exactly GroupPods pods over all namespaces.
	LabelGroup = "bench.millrace.io/group"
	// LabelShare divides all pods into Shares equal parts, spread over all
	// slices: pod i is in part i modulo Shares.
	LabelShare = "bench.millrace.io/share"
)

// How many pods a value of LabelSlice and of LabelGroup selects, and how many
// values LabelShare has.
const (
	SlicePods = 20
	GroupPods = 500
	Shares    = 500
)

// Kinds returns all kinds in the order in which they are written.
func Kinds() []Kind {
	return []Kind{KindNamespace, KindServiceAccount, KindNode, KindConfigMap, KindSecret, KindPod}
}

// deletionKinds returns all kinds in the order in which they are removed.
func deletionKinds() []Kind {
	return []Kind{KindPod, KindSecret, KindConfigMap, KindServiceAccount, KindNode, KindNamespace}
}

// Namespaced says whether objects of the kind live in a namespace.
func (k Kind) Namespaced() bool { return k != KindNode && k != KindNamespace }

// storageDir is the directory below the key prefix that holds the kind.
func (k Kind) storageDir() string {
	if k == KindNode {
		return "minions" // the name nodes had when the layout was fixed
	}
	return string(k)
}

// noun is the kind as people write it, for one or for several objects.
func (k Kind) noun(n int64) string {
	var s string
	switch k {
	case KindServiceAccount:
		s = "service accounts"
	case KindConfigMap:
		s = "config maps"
	default:
		s = string(k)
	}
	if n == 1 {
		return strings.TrimSuffix(s, "s")
	}
	return s
}
