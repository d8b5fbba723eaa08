package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	flowcontrolclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
)

// flowSchema matches requests of one user.
func flowSchema(name string) *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "catch-all"}, MatchingPrecedence: 100,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true}},
			}},
		},
	}
}

// TestFairnessWritesNothing runs Kubernetes' controller of priority and fairness with its
// own client, with which it writes the status of FlowSchemas, and with the client of a
// replica.
func TestFairnessWritesNothing(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(flowcontrolclient.FlowcontrolV1Interface) flowcontrolclient.FlowcontrolV1Interface{
		"kubernetes": func(c flowcontrolclient.FlowcontrolV1Interface) flowcontrolclient.FlowcontrolV1Interface { return c },
		"replica": func(c flowcontrolclient.FlowcontrolV1Interface) flowcontrolclient.FlowcontrolV1Interface {
			return readOnlyFlowcontrol{c}
		},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := fake.NewClientset(flowSchema("alice"), bootstrap.MandatoryPriorityLevelConfigurationCatchAll, bootstrap.MandatoryPriorityLevelConfigurationExempt)
			factory := informers.NewSharedInformerFactory(upstream, 0)
			controller := flowcontrol.New(factory, client(upstream.FlowcontrolV1()), 10)
			factory.Start(t.Context().Done())
			ended := make(chan error, 1)
			go func() { ended <- controller.Run(t.Context().Done()) }()
			matches := func(name string) error {
				return wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, testTimeout, true, func(context.Context) (matched bool, err error) {
					select {
					case err := <-ended:
						return false, errors.Join(errors.New("the controller ended"), err)
					default:
					}
					digest := flowcontrol.RequestDigest{User: &user.DefaultInfo{Name: name}, RequestInfo: &request.RequestInfo{IsResourceRequest: true, Verb: "list", Resource: "pods"}}
					controller.Handle(t.Context(), digest, func(fs *flowcontrolv1.FlowSchema, _ *flowcontrolv1.PriorityLevelConfiguration, _ string) {
						matched = fs.Name == name
					}, func() flowcontrolrequest.WorkEstimate { return flowcontrolrequest.WorkEstimate{InitialSeats: 1} }, func(bool) {}, func() {})
					return matched, nil
				})
			}
			if err := matches("alice"); err != nil {
				t.Fatal(err)
			}
			// The controller handles the next object after it has written about the one before.
			if err := upstream.Tracker().Add(flowSchema("bob")); err != nil {
				t.Fatal(err)
			}
			if err := matches("bob"); err != nil {
				t.Fatal(err)
			}
			writes := 0
			for _, action := range upstream.Actions() {
				if verb := action.GetVerb(); verb != "list" && verb != "watch" {
					writes++
				}
			}
			if (writes > 0) != (name == "kubernetes") {
				t.Errorf("%d writes", writes)
			}
		})
	}
}
