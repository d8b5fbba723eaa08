package kube

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

var errAsked = errors.New("asked")

// refusing is a plugin that refuses all that it is asked about.
type refusing struct{ *admission.Handler }

func (refusing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return errAsked
}

func TestPassWithoutQuota(t *testing.T) {
	client := fake.NewClientset(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "q"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	gate := passWithoutQuota(factory)
	plugin := refusing{admission.NewHandler(admission.Create)}
	limits := gate.Decorate(plugin, "ResourceQuota").(admission.ValidationInterface)
	asked := func(p admission.ValidationInterface, namespace string) bool {
		t.Helper()
		gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
		a := admission.NewAttributesRecord(nil, nil, gvk, namespace, "w", gvk.GroupVersion().WithResource("widgets"),
			"", admission.Create, nil, false, nil)
		err := p.Validate(t.Context(), a, nil)
		if err != nil && !errors.Is(err, errAsked) {
			t.Fatal(err)
		}
		return err != nil
	}
	if !asked(limits, "free") {
		t.Error("not asked before it is known which namespaces have quotas")
	}
	seen := make(chan struct{}, 1)
	if _, err := factory.Core().V1().ResourceQuotas().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if obj.(*corev1.ResourceQuota).Name == "late" {
				seen <- struct{}{}
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer stop()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	if asked(limits, "free") {
		t.Error("asked of a namespace without quotas")
	}
	if !asked(limits, "limited") {
		t.Error("not asked of a namespace with a quota")
	}
	if limits.Handles(admission.Delete) || !limits.Handles(admission.Create) {
		t.Error("handles other operations than the plugin")
	}
	if !asked(gate.Decorate(plugin, "LimitRanger").(admission.ValidationInterface), "free") {
		t.Error("another plugin is not asked")
	}
	late := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "free", Name: "late"}}
	if _, err := client.CoreV1().ResourceQuotas("free").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-seen
	if !asked(limits, "free") {
		t.Error("not asked of a namespace that has got a quota")
	}
}
