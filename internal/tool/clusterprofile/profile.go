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
	// Resources are in the order of their bytes, the largest first.
	Resources []Resource `json:"resources"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Resource has the numbers of one resource, as in "deployments.apps".
type Resource struct {
	Resource string  `json:"resource"`
	Objects  float64 `json:"objects"`
	// Bytes and ProtobufBytes are the mean size of an object in that form. ProtobufBytes is
	// 0 for resources that have none.
	Bytes         float64 `json:"bytes"`
	ProtobufBytes float64 `json:"protobufBytes,omitempty"`
	// Sizes are quantiles of the sizes as JSON.
	Sizes *Sizes `json:"sizes,omitempty"`
	// Namespaces have objects, LargestNamespace is how many the largest one has.
	Namespaces       float64 `json:"namespaces,omitempty"`
	LargestNamespace float64 `json:"largestNamespace,omitempty"`
	// Labels are those that most objects have, Fields the selectable ones that were counted.
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

// Key is the key of a label, or a field.
type Key struct {
	Key string `json:"key"`
	// Objects have it, with so many distinct Values.
	Objects float64 `json:"objects"`
	Values  float64 `json:"values"`
}

// Read reads a profile from a file.
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

// Find returns a resource, nil if the profile does not have it.
func (p *Profile) Find(resource string) *Resource {
	i := slices.IndexFunc(p.Resources, func(r Resource) bool { return r.Resource == resource })
	if i < 0 {
		return nil
	}
	return &p.Resources[i]
}

// Objects of one namespace, on average.
func (r *Resource) InNamespace() float64 { return r.Objects / max(1, r.Namespaces) }

// Shares for selectors of which the profile knows nothing.
const (
	unknownLabelShare = 0.01
	unknownFieldShare = 0.01
	// phaseShare is for status.phase, which is mostly used to leave out what has ended.
	phaseShare = 0.9
)

// Share returns which part of the objects a selector by these keys selects, for a value of
// mean frequency.
func (r *Resource) Share(labels, fields []string) float64 {
	share := 1.0
	for _, key := range labels {
		share *= r.keyShare(r.Labels, key, unknownLabelShare)
	}
	for _, key := range fields {
		unknown := unknownFieldShare
		switch key {
		case "metadata.name":
			return 1 / max(1, r.Objects)
		case "metadata.namespace":
			unknown = 1 / max(1, r.Namespaces)
		case "status.phase":
			unknown = phaseShare
		}
		share *= r.keyShare(r.Fields, key, unknown)
	}
	return share
}

func (r *Resource) keyShare(keys []Key, key string, unknown float64) float64 {
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Key == key })
	if i < 0 || r.Objects == 0 {
		return unknown
	}
	return min(1, keys[i].Objects/max(1, keys[i].Values)/r.Objects)
}

// defaultBytes are sizes of objects as JSON, for logs without a profile.
var defaultBytes = map[string]float64{
	"pods": 8000, "nodes": 12000, "secrets": 4000, "configmaps": 4000, "services": 2000, "endpoints": 3000, "events": 1300, "namespaces": 1000,
	"serviceaccounts": 700, "persistentvolumes": 2500, "persistentvolumeclaims": 2000, "endpointslices.discovery.k8s.io": 3000,
	"leases.coordination.k8s.io": 600, "deployments.apps": 6000, "replicasets.apps": 5000, "statefulsets.apps": 6000, "daemonsets.apps": 6000,
	"jobs.batch": 4000, "customresourcedefinitions.apiextensions.k8s.io": 30000, "events.events.k8s.io": 1300,
}

const (
	otherBytes = 3000
	// protobufShare is the size of protobuf, of the same object's as JSON.
	protobufShare = 0.7
)

// SetDefaults sets the sizes that are 0 to those that are usual.
func (r *Resource) SetDefaults() {
	if r.Bytes == 0 {
		if r.Bytes = defaultBytes[r.Resource]; r.Bytes == 0 {
			r.Bytes = otherBytes
		}
	}
	if r.ProtobufBytes == 0 && BuiltIn(r.Resource) {
		r.ProtobufBytes = protobufShare * r.Bytes
	}
}

// BuiltIn reports whether a resource is one of Kubernetes. Only those have protobuf.
func BuiltIn(resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	_, group, _ := strings.Cut(resource, ".")
	switch group {
	case "", "apps", "autoscaling", "batch", "policy", "extensions":
		return true
	}
	return strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io") && slices.Contains(builtInGroups, strings.TrimSuffix(group, ".k8s.io"))
}

var builtInGroups = []string{
	"admissionregistration", "apiextensions", "apiregistration", "certificates", "coordination", "discovery", "events", "flowcontrol.apiserver",
	"internal.apiserver", "networking", "node", "rbac.authorization", "resource", "scheduling", "storage", "storagemigration",
}
