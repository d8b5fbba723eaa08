package fill

import "context"

// source gives the objects of a run.
type source interface {
	// count is how many objects of a kind there are.
	count(kind Kind) int
	// object returns object i of a kind. It may ask the server once for each resource.
	object(ctx context.Context, kind Kind, i int) (Object, error)
	// notes say in a few lines what the source does not have.
	notes() []string
}

// shapeSource gives the objects of a Shape.
type shapeSource struct {
	g     *Generator
	shape Shape // with its defaults
}

func (s shapeSource) notes() []string { return nil }

func (s shapeSource) object(_ context.Context, kind Kind, i int) (Object, error) {
	return s.g.Object(kind, i)
}

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
