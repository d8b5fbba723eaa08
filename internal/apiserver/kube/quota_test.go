package kube

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/millrace/millrace/internal/feed"
	mrcache "github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/storage"
)

var errRefused = errors.New("asked")

// refusingPlugin refuses each object, so that a test sees that it was called.
type refusingPlugin struct{ *admission.Handler }

func (refusingPlugin) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return errRefused
}

// isAsked reports whether a plugin is called for an object that is created.
func isAsked(t *testing.T, p admission.ValidationInterface, namespace string) bool {
	t.Helper()
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	a := admission.NewAttributesRecord(nil, nil, gvk, namespace, "w", gvk.GroupVersion().WithResource("widgets"),
		"", admission.Create, nil, false, nil)
	err := p.Validate(t.Context(), a, nil)
	if err != nil && !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	return err != nil
}

func TestQuotaPluginIsSkippedWithoutQuotas(t *testing.T) {
	client := fake.NewClientset(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "q"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	gate := skipWithoutQuota(factory)
	plugin := refusingPlugin{admission.NewHandler(admission.Create)}
	limits := gate.Decorate(plugin, "ResourceQuota").(admission.ValidationInterface)
	asked := func(p admission.ValidationInterface, namespace string) bool {
		t.Helper()
		return isAsked(t, p, namespace)
	}
	if !asked(limits, "free") {
		t.Error("the plugin was skipped before the quotas are known")
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
		t.Error("the plugin was called for a namespace without quotas")
	}
	if !asked(limits, "limited") {
		t.Error("the plugin was skipped for a namespace with a quota")
	}
	if limits.Handles(admission.Delete) || !limits.Handles(admission.Create) {
		t.Error("handles other operations than the plugin")
	}
	if !asked(gate.Decorate(plugin, "LimitRanger").(admission.ValidationInterface), "free") {
		t.Error("another plugin was skipped")
	}
	late := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "free", Name: "late"}}
	if _, err := client.CoreV1().ResourceQuotas("free").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-seen
	if !asked(limits, "free") {
		t.Error("the plugin was skipped for a namespace with a new quota")
	}
}

// TestQuotaAppliesAtOnce checks that a quota counts as soon as the byte cache has it. No
// watch may lag between the cache and the plugin.
func TestQuotaAppliesAtOnce(t *testing.T) {
	const prefix = "/registry/resourcequotas/"
	codec := legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	c := mrcache.New(mrcache.Config{})
	quotas := storage.New(storage.Config{
		Cache: c, Resource: c.Register(mrcache.Spec{Prefix: prefix}), Codec: codec,
		ResourcePrefix: "/resourcequotas", PathPrefix: "/registry", New: func() runtime.Object { return &api.ResourceQuota{} },
	})
	c.BeginLoad().End(t.Context(), 1)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if err := setStoredInformers(factory, func(gr schema.GroupResource) *storage.Store {
		return map[string]*storage.Store{"resourcequotas": quotas}[gr.Resource]
	}); err != nil {
		t.Fatal(err)
	}
	limits := skipWithoutQuota(factory).Decorate(refusingPlugin{admission.NewHandler(admission.Create)}, "ResourceQuota").(admission.ValidationInterface)
	ctx, stop := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer stop()
	factory.StartWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), factory.Core().V1().ResourceQuotas().Informer().HasSynced)
	if isAsked(t, limits, "team") {
		t.Error("the plugin was called for a namespace without quotas")
	}
	value, err := runtime.Encode(codec, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "q"}})
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t.Context(), []feed.Object{{
		Key: []byte(prefix + "team/q"), Value: value, Revision: 2,
	}})
	if !isAsked(t, limits, "team") || isAsked(t, limits, "teams") {
		t.Error("the quota does not count at once, or elsewhere")
	}
}
