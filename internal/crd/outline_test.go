package crd

import (
	"bytes"
	"context"
	"reflect"
	"strings"
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

// TestOutlinesAreStoredAsWholeOnes changes definitions around their schemas, and
// compares what is stored of them.
func TestOutlinesAreStoredAsWholeOnes(t *testing.T) {
	t.Parallel()
	random := randomDefinitions(t)
	marked := 0
	for i := range 2000 {
		made := random()
		version := v1beta1.SchemeGroupVersion
		if i%10 == 0 {
			version = apiextensionsv1.SchemeGroupVersion // which is read whole
		}
		text := stored(t, made, version)
		whole, _ := decoded(t, text)
		outline := outlineOf(t, text)
		if strings.Contains(string(mustEncode(t, apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), outline)), outlineMark) {
			marked++
		}
		back, err := wholeOf(outline)
		if err != nil || !reflect.DeepEqual(back, whole) {
			t.Fatalf("made whole to\n%+v\nwant\n%+v; %v", back, whole, err)
		}
		for _, full := range []*apiextensions.CustomResourceDefinition{whole, outline} {
			full.Labels = map[string]string{"a": `"openAPIV3Schema":{}`}
			full.Status.Conditions = append(full.Status.Conditions, apiextensions.CustomResourceDefinitionCondition{Type: "New", Message: "}{"})
		}
		want := mustEncode(t, apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), whole)
		// A copy, as the store makes them.
		if got := mustEncode(t, outlines, outline.DeepCopy()); !bytes.Equal(got, want) {
			t.Fatalf("stored\n%s\nwant\n%s", got, want)
		}
	}
	if marked < 500 {
		t.Errorf("%d of 2000 definitions had an outline", marked)
	}
}

func mustEncode(tb testing.TB, codec runtime.Encoder, full *apiextensions.CustomResourceDefinition) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := codec.Encode(full, &b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestMixedOutlineIsStored stores one of whose schemas one was replaced.
func TestMixedOutlineIsStored(t *testing.T) {
	t.Parallel()
	full := wide(3)
	full.Name = "things.a.example"
	other := *full.Spec.Versions[0].DeepCopy()
	other.Name, other.Storage = "v2", false
	other.Schema.OpenAPIV3Schema.Description = "another"
	full.Spec.Versions = append(full.Spec.Versions, other)
	text := stored(t, full, v1beta1.SchemeGroupVersion)
	whole, _ := decoded(t, text)
	outline := outlineOf(t, text)
	for _, d := range []*apiextensions.CustomResourceDefinition{whole, outline} {
		d.Spec.Versions[1].Schema.OpenAPIV3Schema = &apiextensions.JSONSchemaProps{Type: "object", Description: "new"}
	}
	want := mustEncode(t, apiextensionsapiserver.Codecs.LegacyCodec(v1beta1.SchemeGroupVersion), whole)
	if got := mustEncode(t, outlines, outline); !bytes.Equal(got, want) {
		t.Fatalf("stored\n%s\nwant\n%s", got, want)
	}
}

// seeing is admission that has what it is given converted, as webhooks and policies do.
type seeing struct {
	t    *testing.T
	want *apiextensionsv1.CustomResourceDefinition
	seen int
}

func (s *seeing) Handles(admission.Operation) bool { return true }

func (s *seeing) look(a admission.Attributes, o admission.ObjectInterfaces) error {
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
			if s.seen++; !reflect.DeepEqual(full.Spec, s.want.Spec) {
				s.t.Errorf("admission sees\n%+v\nwant\n%+v", full.Spec, s.want.Spec)
			}
		}
	}
	return nil
}

func (s *seeing) Admit(_ context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return s.look(a, o)
}

func (s *seeing) Validate(_ context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return s.look(a, o)
}

// interfaces are those of the scope of status writes.
type interfaces struct{ admission.ObjectInterfaces }

func (interfaces) GetObjectConvertor() runtime.ObjectConvertor {
	return completingConvertor{apiextensionsapiserver.Scheme}
}

// TestAdmissionSeesWholeDefinitions has the controller's write admitted, which has no
// spec.
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
	next := &seeing{t: t, want: want}
	admit := statusAdmission{next}
	if err := admit.Admit(t.Context(), of(), interfaces{}); err != nil {
		t.Fatal(err)
	}
	if err := admit.Validate(t.Context(), of(), interfaces{}); err != nil {
		t.Fatal(err)
	}
	if next.seen != 8 {
		t.Errorf("admission saw %d definitions, not 8", next.seen)
	}
	if _, ok := textsIn(old); !ok {
		t.Error("the outline was made whole in its place")
	}
}
