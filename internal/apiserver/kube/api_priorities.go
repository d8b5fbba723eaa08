package kube

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

type priority = controlplaneapiserver.APIServicePriority

// apiPriorities returns the priorities of built-in versions in discovery. The priorities
// of generic servers are exported by upstream. The rest is a copy of an unexported
// variable; test/equal/differential compares the APIServices that result.
//
// Upstream: k8s.io/kubernetes/cmd/kube-apiserver/app.apiVersionPriorities; compare at each upgrade.
func apiPriorities() map[schema.GroupVersion]priority {
	all := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	maps.Copy(all, map[schema.GroupVersion]priority{
		{Group: "apps", Version: "v1"}:                    {Group: 17800, Version: 15},
		{Group: "autoscaling", Version: "v2"}:             {Group: 17500, Version: 30},
		{Group: "autoscaling", Version: "v1"}:             {Group: 17500, Version: 15},
		{Group: "autoscaling", Version: "v2beta1"}:        {Group: 17500, Version: 9},
		{Group: "autoscaling", Version: "v2beta2"}:        {Group: 17500, Version: 1},
		{Group: "batch", Version: "v1"}:                   {Group: 17400, Version: 15},
		{Group: "batch", Version: "v1beta1"}:              {Group: 17400, Version: 9},
		{Group: "batch", Version: "v2alpha1"}:             {Group: 17400, Version: 9},
		{Group: "networking.k8s.io", Version: "v1"}:       {Group: 17200, Version: 15},
		{Group: "networking.k8s.io", Version: "v1beta1"}:  {Group: 17200, Version: 9},
		{Group: "policy", Version: "v1"}:                  {Group: 17100, Version: 15},
		{Group: "policy", Version: "v1beta1"}:             {Group: 17100, Version: 9},
		{Group: "storage.k8s.io", Version: "v1"}:          {Group: 16800, Version: 15},
		{Group: "storage.k8s.io", Version: "v1beta1"}:     {Group: 16800, Version: 9},
		{Group: "storage.k8s.io", Version: "v1alpha1"}:    {Group: 16800, Version: 1},
		{Group: "scheduling.k8s.io", Version: "v1"}:       {Group: 16600, Version: 15},
		{Group: "scheduling.k8s.io", Version: "v1beta1"}:  {Group: 16600, Version: 9},
		{Group: "scheduling.k8s.io", Version: "v1alpha3"}: {Group: 16600, Version: 3},
		{Group: "node.k8s.io", Version: "v1"}:             {Group: 16300, Version: 15},
		{Group: "node.k8s.io", Version: "v1beta1"}:        {Group: 16300, Version: 9},
		{Group: "node.k8s.io", Version: "v1alpha1"}:       {Group: 16300, Version: 1},
		{Group: "resource.k8s.io", Version: "v1"}:         {Group: 16200, Version: 21},
		{Group: "resource.k8s.io", Version: "v1beta2"}:    {Group: 16200, Version: 15},
		{Group: "resource.k8s.io", Version: "v1beta1"}:    {Group: 16200, Version: 9},
		{Group: "resource.k8s.io", Version: "v1alpha3"}:   {Group: 16200, Version: 1},
		{Group: "lifecycle.k8s.io", Version: "v1alpha1"}:  {Group: 15700, Version: 1},
	})
	return all
}
