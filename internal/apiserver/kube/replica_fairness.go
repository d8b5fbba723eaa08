package kube

import (
	"context"
	"errors"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	flowcontrolapply "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	flowcontrolclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
)

// useFairness lets Kubernetes' priority and fairness queue and dispatch requests, with
// the FlowSchemas and priority levels of the upstream. The caller must run the informers that
// it returns. Without --enable-priority-and-fairness, it does nothing and returns nil.
func (o *ReplicaOptions) useFairness(config *genericapiserver.Config) (informers.SharedInformerFactory, error) {
	if !o.fairness {
		return nil, nil
	}
	seats := config.MaxRequestsInFlight + config.MaxMutatingRequestsInFlight
	if seats <= 0 {
		return nil, errors.New("--enable-priority-and-fairness needs a bound to share: give --max-requests-inflight or --max-mutating-requests-inflight")
	}
	client, err := kubernetes.NewForConfig(o.upstream)
	if err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	// Without this right the replica would never be ready.
	one := metav1.ListOptions{Limit: 1}
	_, err = client.FlowcontrolV1().FlowSchemas().List(context.Background(), one)
	if err == nil {
		_, err = client.FlowcontrolV1().PriorityLevelConfigurations().List(context.Background(), one)
	}
	if err != nil {
		return nil, fmt.Errorf("read the upstream's priorities: %w: let the user of --kubeconfig list and watch flowschemas and prioritylevelconfigurations, or leave out --enable-priority-and-fairness", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	config.FlowControl = flowcontrol.New(factory, readOnlyFlowcontrol{client.FlowcontrolV1()}, seats)
	return factory, nil
}

// readOnlyFlowcontrol is a client that does not write what Kubernetes' controller finds
// out about FlowSchemas. The upstream's own controller writes that.
//
// Upstream: k8s.io/apiserver/pkg/util/flowcontrol.configController.digestConfigObjects; compare at each upgrade.
type readOnlyFlowcontrol struct {
	flowcontrolclient.FlowcontrolV1Interface
}

// FlowSchemas implements flowcontrolclient.FlowcontrolV1Interface.
func (c readOnlyFlowcontrol) FlowSchemas() flowcontrolclient.FlowSchemaInterface {
	return readOnlyFlowSchemas{c.FlowcontrolV1Interface.FlowSchemas()}
}

type readOnlyFlowSchemas struct {
	flowcontrolclient.FlowSchemaInterface
}

// ApplyStatus implements flowcontrolclient.FlowSchemaInterface. It is the only write of
// the controller.
func (readOnlyFlowSchemas) ApplyStatus(context.Context, *flowcontrolapply.FlowSchemaApplyConfiguration, metav1.ApplyOptions) (*flowcontrolv1.FlowSchema, error) {
	return &flowcontrolv1.FlowSchema{}, nil
}
