package cacher

import (
	"k8s.io/apiserver/pkg/features"
	other "k8s.io/component-base/features"
)

func list() bool { return enabled(features.Kept) || enabled(other.Grown) }
