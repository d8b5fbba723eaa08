package many

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// finalizer is set on a mill while its config map exists.
const finalizer = millGroup + "/flour"

// miller is a reconciler. It maintains a config map for each mill, and the
// mill's status.
type miller struct{ client.Client }

// Reconcile implements reconcile.Reconciler.
func (r miller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := &mill{}
	if err := r.Get(ctx, req.NamespacedName, m); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	flour := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "flour-" + m.Name, Namespace: m.Namespace}}
	if !m.DeletionTimestamp.IsZero() {
		if err := r.Delete(ctx, flour); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
		controllerutil.RemoveFinalizer(m, finalizer)
		return reconcile.Result{}, client.IgnoreNotFound(r.Update(ctx, m))
	}
	if controllerutil.AddFinalizer(m, finalizer) {
		return reconcile.Result{}, r.Update(ctx, m)
	}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, flour, func() error {
		flour.Data = map[string]string{"grains": strings.Join(m.Spec.Grains, " ")}
		return controllerutil.SetControllerReference(m, flour, r.Scheme())
	}); err != nil {
		return reconcile.Result{}, err
	}
	if m.Status.Ground == len(m.Spec.Grains) {
		return reconcile.Result{}, nil
	}
	before := m.DeepCopyObject().(*mill)
	m.Status.Ground = len(m.Spec.Grains)
	return reconcile.Result{}, r.Status().Patch(ctx, m, client.MergeFrom(before))
}

// inspector is a validating webhook that denies mills with a refused grain.
type inspector struct{}

func (inspector) inspect(m *mill) (admission.Warnings, error) {
	for _, grain := range m.Spec.Grains {
		if grain == refused {
			return nil, errors.New(refused + " is no grain")
		}
	}
	return nil, nil
}

// ValidateCreate implements admission.Validator.
func (i inspector) ValidateCreate(_ context.Context, m *mill) (admission.Warnings, error) {
	return i.inspect(m)
}

// ValidateUpdate implements admission.Validator.
func (i inspector) ValidateUpdate(_ context.Context, _, m *mill) (admission.Warnings, error) {
	return i.inspect(m)
}

// ValidateDelete implements admission.Validator.
func (inspector) ValidateDelete(context.Context, *mill) (admission.Warnings, error) { return nil, nil }

// inspection configures the webhook for v2 of mills. Kubernetes converts v1 for
// it.
func inspection() *admissionv1.ValidatingWebhookConfiguration {
	path, none, equivalent, fail := "/validate-milling-example-com-v2-mill", admissionv1.SideEffectClassNone, admissionv1.Equivalent, admissionv1.Fail
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "inspector"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "inspector." + millGroup, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, MatchPolicy: &equivalent, FailurePolicy: &fail,
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "inspector", Namespace: "default", Path: &path}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{millGroup}, APIVersions: []string{"v2"}, Resources: []string{"mills"}},
			}},
		}},
	}
}

// operate starts the operator with its webhooks, in the way operators do in
// their own tests.
func (cl *cluster) operate(t *testing.T, scheme *runtime.Scheme) {
	t.Helper()
	existing := true
	env := &envtest.Environment{
		UseExistingCluster: &existing, Config: cl.Config(), Scheme: scheme,
		CRDInstallOptions:     envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{mills()}, CleanUpAfterUse: true},
		WebhookInstallOptions: envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{inspection()}},
	}
	cfg, err := env.Start()
	check(t, err)
	hooks := &env.WebhookInstallOptions
	m, err := manager.New(cfg, manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir}),
	})
	check(t, err)
	check(t, builder.WebhookManagedBy(m, &mill{}).WithValidator(inspector{}).Complete())
	check(t, builder.ControllerManagedBy(m).For(&mill{}).Owns(&corev1.ConfigMap{}).Complete(miller{m.GetClient()}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		check(t, env.Stop())
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	eventually(t, "webhooks are served", func(context.Context) error { return m.GetWebhookServer().StartedChecker()(nil) })
}

// controller tests an operator that reconciles the objects of a client which
// writes an old version.
func (cl *cluster) controller(t *testing.T) {
	const n = 20
	scheme, err := millScheme(corev1.AddToScheme)
	check(t, err)
	cl.operate(t, scheme)
	c := newClient(t, cl.Config(), scheme)
	named := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("mill-", i)}
	}
	for i := range n {
		check(t, c.Create(t.Context(), &oldMill{ObjectMeta: named(i), Spec: oldMillSpec{Grain: "wheat,rye"}}))
	}
	kept := func(grains string) {
		t.Helper()
		eventually(t, "mills are kept", func(ctx context.Context) error {
			for i := range n {
				old, flour := &oldMill{ObjectMeta: named(i)}, &corev1.ConfigMap{}
				if err := errors.Join(c.Get(ctx, client.ObjectKeyFromObject(old), old), c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "flour-" + old.Name}, flour)); err != nil {
					return err
				}
				if err := errors.Join(differ("grain", old.Spec.Grain, strings.ReplaceAll(grains, " ", ",")), differ("flour", flour.Data["grains"], grains),
					differ("ground", old.Status.Ground, len(strings.Fields(grains)))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	kept("wheat rye")

	for i := range n {
		eventually(t, "an old client writes", func(ctx context.Context) error {
			old := &oldMill{ObjectMeta: named(i)}
			if err := c.Get(ctx, client.ObjectKeyFromObject(old), old); err != nil {
				return err
			}
			old.Spec.Grain = "oat,rye,spelt"
			return c.Update(ctx, old)
		})
	}
	kept("oat rye spelt")
	if err := c.Create(t.Context(), &oldMill{ObjectMeta: named(n), Spec: oldMillSpec{Grain: refused}}); !apierrors.IsForbidden(err) {
		t.Errorf("%s was met with %v", refused, err)
	}

	for i := range n {
		check(t, c.Delete(t.Context(), &mill{ObjectMeta: named(i)}))
	}
	eventually(t, "mills are gone", func(ctx context.Context) error {
		list, flour := &millList{}, &corev1.ConfigMapList{}
		if err := errors.Join(c.List(ctx, list), c.List(ctx, flour, client.InNamespace("default"))); err != nil {
			return err
		}
		for _, f := range flour.Items {
			if strings.HasPrefix(f.Name, "flour-") {
				return errors.New(f.Name + " is there")
			}
		}
		return differ("number of mills", len(list.Items), 0)
	})
}

func newClient(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	check(t, err)
	return c
}
