package crd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apiextensions-apiserver/pkg/controller/apiapproval"
	"k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema"
	"k8s.io/apiextensions-apiserver/pkg/controller/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
)

// definitionSet has definitions by name, with the statuses that our controller gives them.
type definitionSet map[string]*fullDefinition

// settle does the work of the controller until nothing changes any longer.
func (set definitionSet) settle() {
	c := &controller{}
	for again := true; again; {
		again = false
		for name, full := range set {
			claimed := claims{resources: map[string]bool{}, kinds: map[string]bool{}}
			for _, other := range set {
				if other.Spec.Group == full.Spec.Group {
					claimed.add(&other.Status.AcceptedNames)
				}
			}
			if acceptNames(full, claimed) {
				again = true
			}
			c.establish(&definitionState{}, full)
			setApprovalCondition(&definitionState{}, full)
			setStructuralCondition(slog.New(slog.DiscardHandler), full)
			set[name] = full
		}
	}
}

// upstream runs Kubernetes' controllers over a client without a server.
type upstream struct {
	client *fake.Clientset
}

func startUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{client: fake.NewSimpleClientset()}
	// The fake client sets no resource versions. Kubernetes' controllers need them to tell
	// which object is newer, and to find conflicts. The client holds its lock in reactors.
	revision := 0
	gvr := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	u.client.PrependReactor("*", gvr.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		with, ok := action.(interface{ GetObject() runtime.Object })
		if !ok {
			return false, nil, nil
		}
		written := with.GetObject().(*fullDefinition)
		if now, err := u.client.Tracker().Get(gvr, "", written.Name); err == nil && now.(*fullDefinition).ResourceVersion != written.ResourceVersion {
			return true, nil, apierrors.NewConflict(gvr.GroupResource(), written.Name, errors.New("written meanwhile"))
		}
		revision++
		written.ResourceVersion = fmt.Sprint(revision)
		return false, nil, nil
	})
	factory := externalversions.NewSharedInformerFactory(u.client, 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions()
	definitions := u.client.ApiextensionsV1()
	naming := status.NewNamingConditionController(klog.Background(), informer, definitions)
	structural := nonstructuralschema.NewConditionController(informer, definitions)
	approval := apiapproval.NewKubernetesAPIApprovalPolicyConformantConditionController(informer, definitions)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go naming.RunWithContext(ctx)
	go structural.RunWithContext(1, ctx)
	go approval.RunWithContext(1, ctx)
	return u
}

// facts describes a status without its times, and without the condition Established, which
// Kubernetes' handler sets, and that does not run here.
func facts(full *fullDefinition) string {
	var lines []string
	for _, c := range full.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	slices.Sort(lines)
	names := full.Status.AcceptedNames
	return fmt.Sprintf("%s %s %s %s %v %v\n  %s", names.Plural, names.Singular, names.Kind, names.ListKind, names.ShortNames, names.Categories, strings.Join(lines, "\n  "))
}

// agrees waits until Kubernetes' controllers have given all definitions the same statuses.
func (u *upstream) agrees(t *testing.T, set definitionSet, when string) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, wait.ForeverTestTimeout, true, func(ctx context.Context) (bool, error) {
		list, err := u.client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		last = nil
		if len(list.Items) != len(set) {
			last = fmt.Errorf("upstream has %d definitions, we %d", len(list.Items), len(set))
		}
		for i := range list.Items {
			theirs := &list.Items[i]
			if a, b := facts(set[theirs.Name]), facts(theirs); a != b {
				last = errors.Join(last, fmt.Errorf("%s\nours:   %s\ntheirs: %s", theirs.Name, a, b))
			}
		}
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v: %v", when, err, last)
	}
}

func (u *upstream) put(t *testing.T, full *fullDefinition) {
	t.Helper()
	definitions := u.client.ApiextensionsV1().CustomResourceDefinitions()
	for {
		now, err := definitions.Get(t.Context(), full.Name, metav1.GetOptions{})
		changed := full.DeepCopy()
		if err == nil {
			// Like the API, an update leaves the status alone.
			changed.Status, changed.ResourceVersion = now.Status, now.ResourceVersion
			_, err = definitions.Update(t.Context(), changed, metav1.UpdateOptions{})
		} else {
			_, err = definitions.Create(t.Context(), changed, metav1.CreateOptions{})
		}
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// definitionMaker makes random definitions. It has few names, so that conflicts are frequent.
type definitionMaker struct{ *rand.Rand }

func (m definitionMaker) name(prefix string, n int) string {
	return fmt.Sprintf("%s%d", prefix, m.IntN(n))
}

// definition makes a definition with a unique plural name.
func (m definitionMaker) definition(i, generation int) *fullDefinition {
	group := []string{"one.example", "two.example", "three.k8s.io"}[m.IntN(3)]
	plural := fmt.Sprintf("r%d", i)
	full := &fullDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Generation: int64(generation)},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			PreserveUnknownFields: m.IntN(5) == 0,
			Versions:              []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: m.schema()}},
		},
	}
	if m.IntN(2) == 0 {
		full.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: []string{
			"", "unapproved, yet", "https://example.com/approval", "nonsense",
		}[m.IntN(4)]}
	}
	full.Spec.Names = m.names(plural)
	return full
}

func (m definitionMaker) names(plural string) apiextensionsv1.CustomResourceDefinitionNames {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: plural, Singular: m.name("s", 12), Kind: m.name("K", 12), Categories: []string{m.name("c", 3)},
	}
	names.ListKind = names.Kind + "List"
	for range m.IntN(3) {
		names.ShortNames = append(names.ShortNames, m.name("x", 12))
	}
	return names
}

func (m definitionMaker) schema() *apiextensionsv1.CustomResourceValidation {
	props := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	if m.IntN(4) == 0 {
		// Not structural: a nested schema must have a type.
		props.Properties = map[string]apiextensionsv1.JSONSchemaProps{"a": {}}
	}
	return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}
}

// contested reports whether two definitions wait for the same name. Timing decides which of
// the two gets the name.
func (set definitionSet) contested() bool {
	waiting := map[string]bool{}
	for _, full := range set {
		wanted, had := full.Spec.Names, full.Status.AcceptedNames
		missing := map[string]bool{}
		for _, pair := range [][2]string{{wanted.Singular, had.Singular}, {"kind " + wanted.Kind, "kind " + had.Kind}, {"kind " + wanted.ListKind, "kind " + had.ListKind}} {
			if pair[0] != pair[1] {
				missing[full.Spec.Group+" "+pair[0]] = true
			}
		}
		for _, short := range wanted.ShortNames {
			if !slices.Contains(had.ShortNames, short) {
				missing[full.Spec.Group+" "+short] = true
			}
		}
		for name := range missing {
			if waiting[name] {
				return true
			}
			waiting[name] = true
		}
	}
	return false
}

func (set definitionSet) clone() definitionSet {
	c := definitionSet{}
	for name, full := range set {
		c[name] = full.DeepCopy()
	}
	return c
}

// TestConditionsAgreeWithKubernetes creates, changes and deletes definitions at random, and
// compares their statuses with those of Kubernetes' controllers.
func TestConditionsAgreeWithKubernetes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := definitionMaker{rand.New(rand.NewPCG(seed, 0))}
	u, set := startUpstream(t), definitionSet{}
	conflicts := 0
	for step := range 150 {
		next, changed, gone := set.clone(), (*fullDefinition)(nil), ""
		switch names := slices.Sorted(maps.Keys(set)); {
		case len(names) > 3 && m.IntN(5) == 0:
			gone = names[m.IntN(len(names))]
			delete(next, gone)
		case len(names) > 3 && m.IntN(2) == 0:
			changed = next[names[m.IntN(len(names))]]
			changed.Spec.Names = m.names(changed.Spec.Names.Plural)
			changed.Spec.Versions[0].Schema = m.schema()
			changed.Generation++
		default:
			changed = m.definition(step, 1)
			next[changed.Name] = changed
		}
		var asked *fullDefinition
		if changed != nil {
			asked = changed.DeepCopy()
		}
		next.settle()
		if next.contested() || set.contested() {
			continue
		}
		what := fmt.Sprintf("step %d: delete %s", step, gone)
		if asked != nil {
			what = fmt.Sprintf("step %d: put %s with %+v", step, asked.Name, asked.Spec.Names)
			u.put(t, asked)
		} else if err := u.client.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), gone, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		set = next
		u.agrees(t, set, what)
		for _, full := range set {
			if apiextensionshelpers.IsCRDConditionFalse(full, apiextensionsv1.NamesAccepted) {
				conflicts++
			}
		}
	}
	if conflicts == 0 {
		t.Error("no definition was ever in conflict")
	}
}

func TestEstablished(t *testing.T) {
	t.Parallel()
	full := definitionMaker{rand.New(rand.NewPCG(1, 1))}.definition(0, 1)
	c := &controller{}
	c.establish(&definitionState{}, full)
	if apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established) != nil {
		t.Error("established before names are accepted")
	}
	acceptNames(full, claims{})
	if got := apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established); got == nil || got.Reason != "Installing" {
		t.Errorf("with accepted names: %+v", got)
	}
	full.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte("no certificate")},
	}}
	c.establish(&definitionState{}, full)
	if got := apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established); got.Reason != "InvalidCABundle" || got.Status != apiextensionsv1.ConditionFalse {
		t.Errorf("with a broken webhook: %+v", got)
	}
	full.Spec.Conversion = nil
	c.establish(&definitionState{}, full)
	if got := apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established); got.Reason != "InitialNamesAccepted" || got.Status != apiextensionsv1.ConditionTrue {
		t.Errorf("then: %+v", got)
	}
}
