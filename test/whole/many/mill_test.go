package many

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// mill is version v2 of an operator's kind. It is the stored version, and the
// version that the controller reads. Older clients write v1.
type mill struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              millSpec   `json:"spec"`
	Status            millStatus `json:"status,omitempty"`
}

type millSpec struct {
	Grains []string `json:"grains,omitempty"`
}

type millStatus struct {
	Ground int `json:"ground,omitempty"`
}

type millList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []mill `json:"items"`
}

// oldMill is version v1, in which grains are one string.
type oldMill struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              oldMillSpec `json:"spec"`
	Status            millStatus  `json:"status,omitempty"`
}

type oldMillSpec struct {
	Grain string `json:"grain,omitempty"`
}

const (
	millGroup = "milling.example.com"
	// refused is a grain that the operator's webhook denies.
	refused = "sand"
)

// millScheme returns a scheme with both versions and the kinds that base adds.
func millScheme(base func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	old, current := schema.GroupVersion{Group: millGroup, Version: "v1"}, schema.GroupVersion{Group: millGroup, Version: "v2"}
	s.AddKnownTypeWithName(old.WithKind("Mill"), &oldMill{})
	s.AddKnownTypeWithName(current.WithKind("Mill"), &mill{})
	s.AddKnownTypeWithName(current.WithKind("MillList"), &millList{})
	metav1.AddToGroupVersion(s, old)
	metav1.AddToGroupVersion(s, current)
	return s, base(s)
}

// Hub implements conversion.Hub.
func (*mill) Hub() {}

// ConvertTo implements conversion.Convertible.
func (o *oldMill) ConvertTo(to conversion.Hub) error {
	m := to.(*mill)
	m.ObjectMeta, m.Status = o.ObjectMeta, o.Status
	if o.Spec.Grain != "" {
		m.Spec.Grains = strings.Split(o.Spec.Grain, ",")
	}
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (o *oldMill) ConvertFrom(from conversion.Hub) error {
	m := from.(*mill)
	o.ObjectMeta, o.Status = m.ObjectMeta, m.Status
	o.Spec.Grain = strings.Join(m.Spec.Grains, ",")
	return nil
}

// DeepCopyObject implements runtime.Object.
func (m *mill) DeepCopyObject() runtime.Object {
	c := *m
	m.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Grains = append([]string(nil), m.Spec.Grains...)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (o *oldMill) DeepCopyObject() runtime.Object {
	c := *o
	o.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *millList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]mill, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*mill)
	}
	return &c
}

// mills returns the definition with both versions.
func mills() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	version := func(name string, stored bool, property string, of apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
		object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
			return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
		}
		whole := object(map[string]apiextensionsv1.JSONSchemaProps{
			"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{property: of}),
			"status": object(map[string]apiextensionsv1.JSONSchemaProps{"ground": {Type: "integer"}}),
		})
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "mills." + millGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: millGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "mills", Singular: "mill", Kind: "Mill", ListKind: "MillList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				version("v1", false, "grain", text),
				version("v2", true, "grains", apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}}),
			},
		},
	}
}
