package crd

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestIdentifiers checks that the encoders of different versions have different identifiers,
// and that the encoders of different groups have the same ones.
func TestIdentifiers(t *testing.T) {
	text := mediaTypes(typer{ObjectTyper: runtime.NewScheme()})[0].Serializer
	id := func(group string, gv schema.GroupVersion) runtime.Identifier {
		n := negotiatedSerializer{served: &servedDefinition{def: &Definition{Group: group}}}
		return n.EncoderForVersion(text, gv).Identifier()
	}
	v1 := id("a", schema.GroupVersion{Group: "a", Version: "v1"})
	if other := id("b", schema.GroupVersion{Group: "b", Version: "v1"}); other != v1 {
		t.Errorf("the encoder's identifier is %s for one group and %s for another, want the same", v1, other)
	}
	for _, gv := range []schema.GroupVersion{{Group: "a", Version: "v2"}, metav1.SchemeGroupVersion, {Version: "v1"}, {Group: "b", Version: "v1"}} {
		if other := id("a", gv); other == v1 {
			t.Errorf("%s has the identifier of another version, %s", gv, v1)
		}
	}
}
