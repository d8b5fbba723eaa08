package fill

import "context"

// source generates the objects of a run. It is safe for concurrent use.
type source interface {
	// count returns the number of objects of a kind.
	count(kind Kind) int
	// object returns object i of a kind. It may send dry runs to the server, at the first
	// object of each resource.
	object(ctx context.Context, kind Kind, i int) (Object, error)
	// notes returns lines on what the source leaves out.
	notes() []string
}

// shapeSource generates the objects of a Shape.
type shapeSource struct {
	g     *Generator
	shape Shape // with its defaults
}

func (s shapeSource) notes() []string { return nil }

func (s shapeSource) object(_ context.Context, kind Kind, i int) (Object, error) {
	return s.g.Object(kind, i)
}

// count implements source. It is 0 for the kinds that only a profile has.
func (s shapeSource) count(kind Kind) int {
	shape := s.shape
	switch kind {
	case KindNamespace, KindServiceAccount:
		return shape.Namespaces
	case KindNode:
		return shape.Nodes
	case KindConfigMap:
		return shape.ConfigMaps
	case KindSecret:
		return shape.Secrets
	case KindPod:
		return shape.Pods
	case KindDeployment, KindReplicaSet, KindService, KindEndpointSlice:
		return shape.workloads()
	case KindLease:
		if shape.Leases {
			return shape.Nodes
		}
	case KindEvent:
		return shape.Events
	case KindCRD:
		return shape.CRDs
	case KindCustomObject:
		return shape.Objects
	}
	return 0
}
