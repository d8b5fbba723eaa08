package crd

import (
	"context"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// outlineOf decodes an outline.
func outlineOf(tb testing.TB, stored []byte) *apiextensions.CustomResourceDefinition {
	tb.Helper()
	full := &apiextensions.CustomResourceDefinition{}
	if _, _, err := outlines.Decode(stored, nil, full); err != nil {
		tb.Fatal(err)
	}
	return full
}

// convertingAdmission converts the objects that it is given, as webhooks and policies do,
// and compares them with a definition.
type convertingAdmission struct {
	t    *testing.T
	want *apiextensionsv1.CustomResourceDefinition
	// compared counts definitions.
	compared int
}

func (c *convertingAdmission) Handles(admission.Operation) bool { return true }

func (c *convertingAdmission) compare(a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, obj := range []runtime.Object{a.GetObject(), a.GetOldObject()} {
		out, err := o.GetObjectConvertor().ConvertToVersion(obj, apiextensionsv1.SchemeGroupVersion)
		if err != nil {
			return err
		}
		into := &apiextensionsv1.CustomResourceDefinition{}
		if err := o.GetObjectConvertor().Convert(obj, into, nil); err != nil {
			return err
		}
		for _, full := range []*apiextensionsv1.CustomResourceDefinition{out.(*apiextensionsv1.CustomResourceDefinition), into} {
			if c.compared++; !reflect.DeepEqual(full.Spec, c.want.Spec) {
				c.t.Errorf("admission sees\n%+v\nwant\n%+v", full.Spec, c.want.Spec)
			}
		}
	}
	return nil
}

func (c *convertingAdmission) Admit(_ context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return c.compare(a, o)
}

func (c *convertingAdmission) Validate(_ context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return c.compare(a, o)
}

// interfaces are those of the scope of status writes.
type scopeInterfaces struct{ admission.ObjectInterfaces }

func (scopeInterfaces) GetObjectConvertor() runtime.ObjectConvertor {
	return completingConvertor{apiextensionsapiserver.Scheme}
}

// TestAdmissionSeesWholeDefinitions admits a write of the controller, whose object is an
// outline without a spec. Admission must get the spec with its schemas.
func TestAdmissionSeesWholeDefinitions(t *testing.T) {
	t.Parallel()
	full := wide(3)
	full.Name = "things.a.example"
	text := stored(t, full, v1beta1.SchemeGroupVersion)
	_, want := decoded(t, text)
	old, sent := outlineOf(t, text), outlineOf(t, text)
	sent.Spec = apiextensions.CustomResourceDefinitionSpec{}
	of := func() admission.Attributes {
		return admission.NewAttributesRecord(sent, old, schema.GroupVersionKind{}, "", full.Name, apiextensionsv1.SchemeGroupVersion.WithResource(definitionsName),
			"status", admission.Update, nil, false, nil)
	}
	next := &convertingAdmission{t: t, want: want}
	admit := statusAdmission{next}
	if err := admit.Admit(t.Context(), of(), scopeInterfaces{}); err != nil {
		t.Fatal(err)
	}
	if err := admit.Validate(t.Context(), of(), scopeInterfaces{}); err != nil {
		t.Fatal(err)
	}
	if next.compared != 8 {
		t.Errorf("admission compared %d definitions, not 8", next.compared)
	}
	if !reflect.DeepEqual(old, outlineOf(t, text)) {
		t.Error("admission replaced the outline's schemas in place")
	}
}
