package hollow

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// Media types of bodies.
const (
	typeProtobuf       = "application/vnd.kubernetes.protobuf"
	typeStrategicPatch = "application/strategic-merge-patch+json"
	typeJSON           = "application/json"
)

// The media types of each form. A server that has no protobuf sends JSON.
const (
	acceptJSON     = "application/json"
	acceptProtobuf = "application/vnd.kubernetes.protobuf,application/json"
	acceptMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// encodeProtobuf returns an object as protobuf in Kubernetes' envelope.
func encodeProtobuf(version, kind string, object interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	raw, err := object.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
	body, err := envelope.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return append([]byte("k8s\x00"), body...), nil
}
