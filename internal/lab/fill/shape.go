package fill

import (
	"errors"
	"fmt"
)

// Defaults for the zero values of a Shape. Sizes are in bytes.
const (
	DefaultPodSize       = 4000
	DefaultSecretSize    = 2000
	DefaultConfigMapSize = 2000
	DefaultProperties    = 100 // of a definition; not bytes
)

// maxObjectSize bounds the size of every object in bytes. It leaves room for the
// rest of a request within etcd's default limit of 1.5 MiB.
const maxObjectSize = 1_000_000

// maxProperties bounds Shape.Properties. A definition with this many properties
// would already exceed maxObjectSize.
const maxProperties = 10_000

// Shape describes the objects of a synthetic cluster. Equal shapes make equal
// objects, byte for byte.
type Shape struct {
	// Seed determines all names, UIDs and contents. Zero is a valid seed.
	Seed uint64
	// Nodes is the number of nodes. Zero means one per 100 pods, or none if the
	// pods are unbound.
	Nodes int
	// Namespaces is the number of namespaces; zero means one per 1,000
	// namespaced objects, rounded up.
	Namespaces int
	// Pods, Secrets and ConfigMaps are numbers of objects; zero means none.
	Pods, Secrets, ConfigMaps int
	// PodSize, SecretSize and ConfigMapSize are the sizes of one object as
	// compact JSON in bytes, reached within 5 %. Zero means the default.
	PodSize, SecretSize, ConfigMapSize int
	// CRDs is the number of custom resource definitions. Groups is the number of
	// API groups over which they are spread; zero means one per ten definitions.
	CRDs, Groups int
	// Properties is the number of properties in the schema of a definition's spec,
	// including nested ones. Zero means DefaultProperties. 100 properties take
	// about 17 KB of JSON, 5,000 about 750 KB.
	Properties int
	// Objects is the number of custom objects, spread over all definitions.
	Objects int
	// Workloads adds the Deployment, ReplicaSet, Service and EndpointSlice of each slice of
	// pods, and Leases the lease of each node.
	Workloads, Leases bool
	// Events is the number of events, which are spread over all pods.
	Events int
	// Unbound leaves pods without a node, so that a scheduler can place them.
	// Otherwise pod i runs on node i modulo Nodes.
	Unbound bool
	// Older writes pods as versions before 1.16 stored them: without the list of their
	// addresses, which every later version adds when it reads a pod. It needs etcd.
	Older bool
	// Ownerless omits owner references. The ReplicaSet that a pod's reference names does not
	// exist without Workloads, and has another UID if an API server has chosen it. A
	// cluster's garbage collector would then remove the pod.
	Ownerless bool
}

// withDefaults returns the shape with its zero values replaced.
func (s Shape) withDefaults() Shape {
	if s.Nodes == 0 && !s.Unbound {
		s.Nodes = (s.Pods + 99) / 100
	}
	if s.Namespaces == 0 {
		s.Namespaces = (s.Pods + s.Secrets + s.ConfigMaps + s.Objects + 999) / 1000
	}
	if s.Groups == 0 {
		s.Groups = (s.CRDs + 9) / 10
	}
	if s.Properties == 0 {
		s.Properties = DefaultProperties
	}
	if s.PodSize == 0 {
		s.PodSize = DefaultPodSize
	}
	if s.SecretSize == 0 {
		s.SecretSize = DefaultSecretSize
	}
	if s.ConfigMapSize == 0 {
		s.ConfigMapSize = DefaultConfigMapSize
	}
	return s
}

// validate returns an error for the first value that is out of range, or contradicts another.
// It names fields by their flags.
func (s Shape) validate() error {
	for _, c := range []struct {
		flag  string
		value int
	}{
		{"nodes", s.Nodes}, {"namespaces", s.Namespaces}, {"pods", s.Pods},
		{"secrets", s.Secrets}, {"configmaps", s.ConfigMaps}, {"crds", s.CRDs}, {"groups", s.Groups},
		{"objects", s.Objects}, {"events", s.Events},
	} {
		if c.value < 0 {
			return fmt.Errorf("%s is %d: give zero or a positive number", c.flag, c.value)
		}
	}
	switch {
	case s.Groups > s.CRDs:
		return fmt.Errorf("groups is %d: give at most one group per definition, of which crds has %d", s.Groups, s.CRDs)
	case s.Objects > 0 && s.CRDs == 0:
		return fmt.Errorf("objects is %d: give a number of crds too, custom objects need definitions", s.Objects)
	case (s.Workloads || s.Events > 0) && s.Pods == 0:
		return errors.New("workloads and events belong to pods: give a number of pods too")
	case s.Properties != 0 && s.Properties < fixedPropertyCount || s.Properties > maxProperties:
		return fmt.Errorf("properties is %d: give a number from %d to %d", s.Properties, fixedPropertyCount, maxProperties)
	}
	for _, c := range []struct {
		flag  string
		value int
	}{
		{"pod-size", s.PodSize}, {"secret-size", s.SecretSize}, {"configmap-size", s.ConfigMapSize},
	} {
		if c.value < 0 || c.value > maxObjectSize {
			return fmt.Errorf("%s is %d bytes: the largest is %d, because etcd takes requests of at most 1.5 MiB",
				c.flag, c.value, maxObjectSize)
		}
	}
	return nil
}
