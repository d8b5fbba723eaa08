package e2e

import (
	"context"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// countAnnotation is the annotation that the policy sets.
const countAnnotation = "millrace.example/properties"

// countProperties returns a policy that annotates a definition with the number of its
// properties, whenever its status is written.
func countProperties() (*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding) {
	fail := admissionv1.Fail
	name := metav1.ObjectMeta{Name: "count-properties"}
	return &admissionv1.MutatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.MutatingAdmissionPolicySpec{
		FailurePolicy: &fail, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"customresourcedefinitions/status"}},
			},
		}}},
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{
			Expression: `Object{metadata: Object.metadata{annotations: {"` + countAnnotation + `":
				string(size(object.spec.versions[0].schema.openAPIV3Schema.properties["spec"].properties))}}}`,
		}}},
	}}, &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name.Name}}
}

// TestPoliciesSeeDefinitions has a policy change definitions when the server writes their
// status. The policy gets the whole schemas, and these are stored unchanged.
func TestPoliciesSeeDefinitions(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	definitions := newCustomClients(t, s).definitions.ApiextensionsV1().CustomResourceDefinitions()
	policy, binding := countProperties()
	policies := clientset(t, s).AdmissionregistrationV1()
	_, err := policies.MutatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{})
	check(t, err)
	_, err = policies.MutatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	check(t, err)
	definition := widgetDefinition(map[string]apiextensionsv1.JSONSchemaProps{"a": stringSchema, "b": stringSchema, "c": stringSchema})
	// The policy takes effect after a moment.
	eventually(t, func(ctx context.Context) error {
		if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		got, err := definitions.Get(ctx, definition.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		established := false
		for _, c := range got.Status.Conditions {
			established = established || c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}
		switch n := got.Annotations[countAnnotation]; {
		case !established:
			return fmt.Errorf("not established: %+v", got.Status.Conditions)
		case n == "":
			_ = definitions.Delete(ctx, definition.Name, metav1.DeleteOptions{})
			return fmt.Errorf("the policy was not called")
		case n != "3":
			t.Fatalf("the policy got %s properties, want 3", n)
		}
		for i, v := range got.Spec.Versions {
			if !apiequality.Semantic.DeepEqual(v.Schema, definition.Spec.Versions[i].Schema) {
				t.Errorf("version %s has the schema\n%+v\nwant\n%+v", v.Name, v.Schema, definition.Spec.Versions[i].Schema)
			}
		}
		return nil
	})
}
