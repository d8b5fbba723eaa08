package programs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// loomFinalizer is set on a loom while it weaves.
	loomFinalizer = "weaving.example.com/loom"
	// wovenLabel is what the mutating webhook sets on a loom.
	wovenLabel = "woven-with"
)

// weaver is a reconciler. It maintains a config map for each loom, and the loom's status.
type weaver struct {
	client.Client
	// name tells replicas of the operator apart.
	name string
	kind schema.GroupVersionKind
}

// Reconcile implements reconcile.Reconciler.
func (w weaver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	loom := newLoom(w.kind)
	if err := w.Get(ctx, req.NamespacedName, loom); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	cloth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cloth-" + loom.GetName(), Namespace: loom.GetNamespace()}}
	if loom.GetDeletionTimestamp() != nil {
		if err := w.Delete(ctx, cloth); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
		controllerutil.RemoveFinalizer(loom, loomFinalizer)
		return reconcile.Result{}, client.IgnoreNotFound(w.Update(ctx, loom))
	}
	if controllerutil.AddFinalizer(loom, loomFinalizer) {
		return reconcile.Result{}, w.Update(ctx, loom)
	}
	if _, err := controllerutil.CreateOrUpdate(ctx, w.Client, cloth, func() error {
		kind, _, _ := unstructured.NestedString(loom.Object, "spec", "cloth")
		cloth.Data = map[string]string{"cloth": kind, "by": w.name, "with": loom.GetLabels()[wovenLabel]}
		return controllerutil.SetControllerReference(loom, cloth, w.Scheme())
	}); err != nil {
		return reconcile.Result{}, err
	}
	if by, _, _ := unstructured.NestedString(loom.Object, "status", "by"); by == w.name {
		return reconcile.Result{}, nil
	}
	before := loom.DeepCopy()
	if err := unstructured.SetNestedField(loom.Object, w.name, "status", "by"); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, w.Status().Patch(ctx, loom, client.MergeFrom(before))
}

func newLoom(kind schema.GroupVersionKind) *unstructured.Unstructured {
	loom := &unstructured.Unstructured{}
	loom.SetGroupVersionKind(kind)
	return loom
}

// managerFor makes a manager that sees the side's namespace.
func (s *side) managerFor(t *testing.T, cfg *rest.Config, change func(*manager.Options)) manager.Manager {
	t.Helper()
	quick, several := 200*time.Millisecond, true
	o := manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &several},
		Cache:            cache.Options{DefaultNamespaces: map[string]cache.Config{s.name: {}}},
		LeaderElectionID: "weaver", LeaderElectionNamespace: s.name, LeaderElectionReleaseOnCancel: true, RetryPeriod: &quick,
	}
	change(&o)
	return must(manager.New(cfg, o))(t)
}

// start runs a manager, and returns a function that ends it.
func start(t *testing.T, m manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// hooks configures both webhooks for the looms of the side.
func (s *side) hooks() envtest.WebhookInstallOptions {
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{s.name + ".example.com"}, APIVersions: []string{"v1"}, Resources: []string{"looms"}},
	}}
	at := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "weaver", Namespace: s.name, Path: &path}}
	}
	name := "weaver." + s.name + ".example.com"
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: s.name},
			Webhooks:   []admissionv1.MutatingWebhook{{Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, ClientConfig: at("/mutate"), Rules: rules}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: s.name},
			Webhooks:   []admissionv1.ValidatingWebhook{{Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, ClientConfig: at("/validate"), Rules: rules}},
		}},
	}
}

// serveHooks serves the webhooks, which the upstream calls. The mutating one reads through
// the manager's cache.
func (s *side) serveHooks(t *testing.T, cfg *rest.Config, options envtest.WebhookInstallOptions) {
	t.Helper()
	m := s.managerFor(t, cfg, func(o *manager.Options) {
		o.WebhookServer = webhook.NewServer(webhook.Options{Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir})
	})
	server := m.GetWebhookServer()
	server.Register("/mutate", &webhook.Admission{Handler: admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		settings, loom := &corev1.ConfigMap{}, &unstructured.Unstructured{}
		if err := errors.Join(m.GetClient().Get(ctx, client.ObjectKey{Namespace: s.name, Name: "settings"}, settings), loom.UnmarshalJSON(req.Object.Raw)); err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		loom.SetLabels(map[string]string{wovenLabel: settings.Data["colour"]})
		changed, err := loom.MarshalJSON()
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(req.Object.Raw, changed)
	})})
	server.Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
		if req.Name == "broken" {
			return admission.Denied("it is broken")
		}
		return admission.Allowed("").WithWarnings("looms are loud")
	})})
	start(t, m)
	eventually(t, "webhooks are served", func() error { return server.StartedChecker()(nil) })
}

// operator runs an operator with two replicas, of which one leads, and with webhooks. All
// of it reads and writes by the side's way.
func (s *side) operator(t *testing.T) {
	ctx := t.Context()
	kind := schema.GroupVersionKind{Group: s.name + ".example.com", Version: "v1", Kind: "Loom"}
	if got := s.run(ctx, "kubectl apply -f looms.yaml -f settings.yaml && kubectl wait --for=condition=Established crd/looms.$SIDE.example.com --timeout=60s"); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	existing := true
	env := &envtest.Environment{UseExistingCluster: &existing, Config: s.Config(), WebhookInstallOptions: s.hooks()}
	cfg := must(env.Start())(t)
	t.Cleanup(func() { check(t, env.Stop()) })
	cfg.WarningHandler = rest.NoWarnings{}
	s.serveHooks(t, cfg, env.WebhookInstallOptions)
	var stops []func()
	for _, name := range []string{"first", "second"} {
		m := s.managerFor(t, cfg, func(o *manager.Options) { o.LeaderElection = true })
		check(t, builder.ControllerManagedBy(m).Named("weaver").For(newLoom(kind)).Owns(&corev1.ConfigMap{}).Complete(weaver{m.GetClient(), name, kind}))
		stops = append(stops, start(t, m))
		if name == "first" {
			<-m.Elected()
		}
	}
	c := must(client.New(cfg, client.Options{}))(t)
	loom := newLoom(kind)
	loom.SetNamespace(s.name)
	loom.SetName("broken")
	check(t, unstructured.SetNestedField(loom.Object, "linen", "spec", "cloth"))
	eventually(t, "the validating webhook refuses", func() error {
		err := c.Create(ctx, loom.DeepCopy(), client.DryRunAll) // it may not be known yet
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("create: %v", err)
		}
		return nil
	})
	loom.SetName("one")
	check(t, c.Create(ctx, loom))
	s.wantCloth(t, c, "first", "linen")
	stops[0]()
	eventually(t, "the loom is changed", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(loom), loom); err != nil {
			return err
		}
		return errors.Join(unstructured.SetNestedField(loom.Object, "wool", "spec", "cloth"), c.Update(ctx, loom))
	})
	s.wantCloth(t, c, "second", "wool")
	check(t, c.Delete(ctx, loom))
	eventually(t, "loom and cloth are gone", func() error {
		for _, o := range []client.Object{loom, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cloth-one", Namespace: s.name}}} {
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("get %s: %v", o.GetName(), err)
			}
		}
		return nil
	})
}

// wantCloth waits for what a replica of the operator makes.
func (s *side) wantCloth(t *testing.T, c client.Client, by, kind string) {
	t.Helper()
	eventually(t, "cloth by "+by, func() error {
		cloth := &corev1.ConfigMap{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: s.name, Name: "cloth-one"}, cloth); err != nil {
			return err
		}
		if got, want := fmt.Sprint(cloth.Data), fmt.Sprint(map[string]string{"by": by, "cloth": kind, "with": "blue"}); got != want {
			return fmt.Errorf("got %s, want %s", got, want)
		}
		return nil
	})
}
