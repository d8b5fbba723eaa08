package cacher

import (
	genericfeatures "k8s.io/apiserver/pkg/features"
	other "k8s.io/component-base/features"
)

func list() bool {
	return enabled(genericfeatures.Kept) || enabled(genericfeatures.Fresh) || enabled(other.Grown) || enabled(genericfeatures.Name(1))
}
