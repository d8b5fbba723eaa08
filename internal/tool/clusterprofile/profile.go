package clusterprofile

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Profile is a cluster in numbers. "millrace-tools analyze profile" prints it.
type Profile struct {
	Time    time.Time `json:"time,omitzero"`
	Version string    `json:"version,omitempty"` // of the server
	// Resources are in the order of the bytes of all their objects, the largest first.
	Resources []Resource `json:"resources"`
	// Notes say which resources could not be read, and why.
	Notes []string `json:"notes,omitempty"`
}

// Resource has the numbers of one resource. Numbers of a sample are extrapolated, so they are not
// integers.
type Resource struct {
	Resource string  `json:"resource"` // as in "deployments.apps"
	Objects  float64 `json:"objects"`
	// Bytes is the mean size of an object as JSON, and ProtobufBytes its mean size as protobuf:
	// 0 for resources that have no protobuf.
	Bytes         float64 `json:"bytes"`
	ProtobufBytes float64 `json:"protobufBytes,omitempty"`
	// Sizes are quantiles of the sizes as JSON, nil if they are unknown.
	Sizes *Sizes `json:"sizes,omitempty"`
	// Namespaces is the number of namespaces with objects. LargestNamespace is the number of
	// objects in the largest one.
	Namespaces       float64 `json:"namespaces,omitempty"`
	LargestNamespace float64 `json:"largestNamespace,omitempty"`
	// Labels are the labels that most objects have, and Fields the selectable fields that were
	// counted.
	Labels []Key `json:"labels,omitempty"`
	Fields []Key `json:"fields,omitempty"`
}

// Sizes are quantiles, in bytes.
type Sizes struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Key is the key of a label, or the path of a field.
type Key struct {
	Key string `json:"key"`
	// Objects is the number of objects with the key, and Values the number of its distinct
	// values.
	Objects float64 `json:"objects"`
	Values  float64 `json:"values"`
}

// Read returns the profile in a file.
func Read(file string) (*Profile, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	var p Profile
	if err := json.Unmarshal(data, &p); err != nil || len(p.Resources) == 0 {
		return nil, fmt.Errorf("read profile %s: it is not what millrace-tools analyze profile printed", file)
	}
	return &p, nil
}

// Find returns a resource, or nil if the profile lacks it.
func (p *Profile) Find(resource string) *Resource {
	i := slices.IndexFunc(p.Resources, func(r Resource) bool { return r.Resource == resource })
	if i < 0 {
		return nil
	}
	return &p.Resources[i]
}

// InNamespace returns the mean number of objects in a namespace that has any.
func (r *Resource) InNamespace() float64 { return r.Objects / max(1, r.Namespaces) }

// Fractions of a resource's objects that selectors select whose keys the profile lacks.
const (
	unknownLabelFraction = 0.01
	unknownFieldFraction = 0.01
	// phaseFraction is for status.phase: clients mostly use it to leave out pods that have ended.
	phaseFraction = 0.9
)

// SelectedFraction returns the fraction of the objects that a selector by keys of labels and fields
// selects. It assumes values of mean frequency.
func (r *Resource) SelectedFraction(labels, fields []string) float64 {
	fraction := 1.0
	for _, key := range labels {
		fraction *= r.keyFraction(r.Labels, key, unknownLabelFraction)
	}
	for _, key := range fields {
		unknown := unknownFieldFraction
		switch key {
		case "metadata.name":
			return 1 / max(1, r.Objects)
		case "metadata.namespace":
			unknown = 1 / max(1, r.Namespaces)
		case "status.phase":
			unknown = phaseFraction
		}
		fraction *= r.keyFraction(r.Fields, key, unknown)
	}
	return fraction
}

// keyFraction returns the fraction of the objects that have one value of a key. It returns unknown for
// a key that the profile lacks.
func (r *Resource) keyFraction(keys []Key, key string, unknown float64) float64 {
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Key == key })
	if i < 0 || r.Objects == 0 {
		return unknown
	}
	return min(1, keys[i].Objects/max(1, keys[i].Values)/r.Objects)
}

// defaultBytes are usual sizes of objects as JSON, for logs without a profile.
var defaultBytes = map[string]float64{
	"pods": 8000, "nodes": 12000, "secrets": 4000, "configmaps": 4000, "services": 2000, "endpoints": 3000, "events": 1300, "namespaces": 1000,
	"serviceaccounts": 700, "persistentvolumes": 2500, "persistentvolumeclaims": 2000, "endpointslices.discovery.k8s.io": 3000,
	"leases.coordination.k8s.io": 600, "deployments.apps": 6000, "replicasets.apps": 5000, "statefulsets.apps": 6000, "daemonsets.apps": 6000,
	"jobs.batch": 4000, "customresourcedefinitions.apiextensions.k8s.io": 30000, "events.events.k8s.io": 1300,
}

const (
	// fallbackBytes is the size of an object of a resource that defaultBytes lacks.
	fallbackBytes = 3000
	// protobufRatio is the size of an object as protobuf, divided by its size as JSON.
	protobufRatio = 0.7
)

// SetDefaults sets sizes that are 0 to usual sizes.
func (r *Resource) SetDefaults() {
	if r.Bytes == 0 {
		if r.Bytes = defaultBytes[r.Resource]; r.Bytes == 0 {
			r.Bytes = fallbackBytes
		}
	}
	if r.ProtobufBytes == 0 && BuiltIn(r.Resource) {
		r.ProtobufBytes = protobufRatio * r.Bytes
	}
}

// BuiltIn reports whether a resource, as in "deployments.apps", is one of Kubernetes' own. Only
// built-in resources have protobuf.
func BuiltIn(resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	_, group, _ := strings.Cut(resource, ".")
	switch group {
	case "", "apps", "autoscaling", "batch", "policy", "extensions":
		return true
	}
	return strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io") &&
		slices.Contains(builtInGroups, strings.TrimSuffix(group, ".k8s.io"))
}

// builtInGroups are Kubernetes' API groups below k8s.io, without the suffix ".k8s.io".
var builtInGroups = []string{
	"admissionregistration", "apiextensions", "apiregistration", "certificates", "coordination", "discovery", "events", "flowcontrol.apiserver",
	"internal.apiserver", "networking", "node", "rbac.authorization", "resource", "scheduling", "storage", "storagemigration",
}
