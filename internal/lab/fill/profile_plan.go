package fill

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// resourcePlan is what to write of one resource of a profile.
type resourcePlan struct {
	kind       Kind   // KindCustomObject for all custom resources
	base, name string // the API path of group and version, and the plural
	namespaced bool
	numbers    *clusterprofile.Resource
	total      int // of the profile, on which nothing but it depends
	n          int // to write: less what others have
	namespaces int
	seed       uint64

	g      *Generator
	custom []*resourcePlan // of all definitions
	// madeNamespaces is how many namespaces the run makes.
	madeNamespaces int
	api            *apiClient

	sizes     sizes
	sizeDeal  deal
	labels    []keyValues
	node      *keyValues // of spec.nodeName
	placement spread

	measure  sync.Once
	overhead overhead
	failed   error
}

// planOf plans a resource, or returns nil if fill has no objects of it.
func planOf(r *clusterprofile.Resource, seed uint64) *resourcePlan {
	p := &resourcePlan{numbers: r, total: round(r.Objects), n: round(r.Objects), namespaces: round(r.Namespaces), seed: seed}
	p.sizes = newSizes(r, p.total)
	name, group, _ := strings.Cut(r.Resource, ".")
	p.name = name
	if !clusterprofile.BuiltIn(r.Resource) {
		p.kind, p.base, p.namespaced = KindCustomObject, "/apis/"+group+"/"+crdVersion, r.Namespaces > 0
		return p
	}
	for _, kind := range ProfileKinds() {
		if kind != KindCustomObject && ResourceName(kind) == r.Resource {
			p.kind, p.base, p.namespaced = kind, kind.api(), kind.Namespaced()
			return p
		}
	}
	return nil
}

// deal decides which object has which size, labels and namespace.
func (p *resourcePlan) deal() {
	n := max(p.total, p.n)
	draw := newStream(p.seed, drawProfile, 0)
	for _, c := range []byte(p.numbers.Resource) {
		draw.state = splitMix64(draw.state + uint64(c))
	}
	p.sizeDeal = newDeal(n, &draw)
	p.placement = newSpread(p.numbers, n, p.namespaces, &draw)
	for _, key := range p.numbers.Labels {
		if key.Key != LabelSeed && !isSetByServers(key.Key) {
			p.labels = append(p.labels, newKeyValues(key, n, &draw))
		}
	}
	i := slices.IndexFunc(p.numbers.Fields, func(k clusterprofile.Key) bool { return k.Key == "spec.nodeName" })
	if i >= 0 && p.kind == KindPod {
		node := newKeyValues(p.numbers.Fields[i], n, &draw)
		p.node = &node
	}
}

// isSetByServers reports whether servers set a label themselves, or refuse values that they
// do not know.
func isSetByServers(key string) bool {
	return key == "kubernetes.io/metadata.name" || strings.HasPrefix(key, "pod-security.kubernetes.io/")
}

// collection is the path of the objects of a namespace, or of all.
func (p *resourcePlan) collection(namespace string) string {
	if namespace == "" {
		return p.base + "/" + p.name
	}
	return p.base + "/namespaces/" + namespace + "/" + p.name
}

// object returns object i in its size.
func (p *resourcePlan) object(ctx context.Context, i int) (Object, error) {
	// The first objects may be asked for by several workers.
	p.measure.Do(func() { p.overhead, p.failed = p.measureOverhead(ctx) })
	if p.failed != nil {
		return nil, p.failed
	}
	object, err := p.bare(i)
	if err != nil {
		return nil, err
	}
	size, err := p.overhead.size(object)
	if err != nil {
		return nil, err
	}
	if missing := p.sizes.of(p.sizeDeal.at(i), p.sizeDeal.n) - float64(size); missing > 0 {
		p.pad(object, p.overhead.pieces(round(missing)), i)
	}
	return object, nil
}

// bare returns object i without the padding that brings it to its size.
func (p *resourcePlan) bare(i int) (*placedObject, error) {
	content, err := p.content(i)
	if err != nil {
		return nil, err
	}
	object := &placedObject{Object: &unstructured.Unstructured{Object: content}, kind: p.kind}
	if object.GetName() == "" {
		object.SetName(fmt.Sprintf("fill-%d-%07d", p.seed, i))
	}
	if p.namespaced && p.kind != KindServiceAccount {
		object.SetNamespace(p.g.namespaceName(p.placement.of(i)))
	}
	if p.kind == KindEvent {
		_ = unstructured.SetNestedField(content, object.GetNamespace(), "involvedObject", "namespace") // it has one
	}
	object.path = p.collection(object.GetNamespace())
	if p.kind == KindCustomObject {
		_, group, _ := strings.Cut(p.numbers.Resource, ".")
		object.definition = &Definition{Group: group, Plural: p.name}
	}
	labels := map[string]string{LabelSeed: p.g.seedLabel()}
	for _, key := range p.labels {
		if value, ok := key.of(i); ok {
			labels[key.key] = fmt.Sprintf("v%d", value)
		}
	}
	object.SetLabels(labels)
	if p.node != nil {
		unstructured.RemoveNestedField(content, "spec", "nodeName")
		if value, ok := p.node.of(i); ok && p.g.shape.Nodes > 0 {
			_ = unstructured.SetNestedField(content, p.g.nodeName(value%p.g.shape.Nodes), "spec", "nodeName") // spec is an object
		}
	}
	return object, nil
}

// content is object i but for its labels and, in most cases, its name and namespace.
func (p *resourcePlan) content(i int) (map[string]any, error) {
	if other, ok := otherKindOf(p.kind); ok {
		return decode([]byte(other.json(i)))
	}
	switch p.kind {
	case KindCRD:
		return p.definition(i), nil
	case KindCustomObject:
		_, group, _ := strings.Cut(p.numbers.Resource, ".")
		return map[string]any{"apiVersion": group + "/" + crdVersion, "kind": title(p.name), "spec": map[string]any{}}, nil
	}
	index := i
	if p.kind == KindServiceAccount {
		index = i % p.madeNamespaces
	}
	typed, err := p.g.Object(p.kind, index)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(asCreated(typed))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	content, err := decode(encoded)
	if err != nil {
		return nil, err
	}
	switch p.kind {
	case KindConfigMap, KindSecret:
		delete(content, "data")
	case KindEndpointSlice:
		content["endpoints"] = []any{}
	case KindServiceAccount:
		if i >= p.madeNamespaces { // the first ones are those without which no pod is admitted
			_ = unstructured.SetNestedField(content, fmt.Sprintf("fill-%07d", i), "metadata", "name") // metadata is an object
		}
	case KindPod:
		delete(content, "status") // a server sets its own
	}
	return content, nil
}

func decode(text []byte) (map[string]any, error) {
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return content, nil
}

// definition is definition i: the first are those of the profile's custom resources, which
// take any object. Others have a group of fill's own.
func (p *resourcePlan) definition(i int) map[string]any {
	name, group, scope := fmt.Sprintf("fill%dn%d", p.seed, i), fmt.Sprintf("g%03d%s", i/10, CRDGroupSuffix), "Namespaced"
	if i < len(p.custom) {
		name = p.custom[i].name
		if _, group, _ = strings.Cut(p.custom[i].numbers.Resource, "."); !p.custom[i].namespaced {
			scope = "Cluster"
		}
	}
	metadata := map[string]any{"name": name + "." + group}
	if strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, ".kubernetes.io") {
		metadata["annotations"] = map[string]any{"api-approved.kubernetes.io": "unapproved, a stand-in for load tests"}
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
		"spec": map[string]any{
			"group": group, "scope": scope,
			"names": map[string]any{"plural": name, "singular": name, "kind": title(name), "listKind": title(name) + "List"},
			"versions": []any{map[string]any{"name": crdVersion, "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": map[string]any{}},
			}}},
		},
	}
}

// pad adds pieces of text to an object where its resource takes them.
func (p *resourcePlan) pad(object *placedObject, lengths []int, i int) {
	if len(lengths) == 0 {
		return
	}
	draw := newStream(p.seed, drawPadding, i)
	content := object.content()
	at := p.paddingPlace()
	if at[len(at)-1] == "env" {
		containers, _, _ := unstructured.NestedSlice(content, append(slices.Clone(at[:len(at)-1]), "containers")...) // each template has one
		first := containers[0].(map[string]any)
		env, _ := first["env"].([]any)
		for n, length := range lengths {
			env = append(env, map[string]any{"name": paddingName(n), "value": excerpt(p.g.envText, &draw, length)})
		}
		first["env"] = env
		_ = unstructured.SetNestedSlice(content, containers, append(slices.Clone(at[:len(at)-1]), "containers")...)
		return
	}
	pieces, _, _ := unstructured.NestedMap(content, at...) // none is an empty one
	pieces = maps.Clone(pieces)
	if pieces == nil {
		pieces = map[string]any{}
	}
	for n, length := range lengths {
		text := excerpt(p.g.envText, &draw, length)
		switch p.kind {
		case KindSecret:
			pieces[paddingName(n)] = draw.base64(length)
		case KindCRD:
			pieces[paddingName(n)] = map[string]any{"type": "string", "description": text}
		default:
			pieces[paddingName(n)] = text
		}
	}
	if p.kind == KindCRD {
		versions, _, _ := unstructured.NestedSlice(content, "spec", "versions")
		_ = unstructured.SetNestedMap(versions[0].(map[string]any), pieces, "schema", "openAPIV3Schema", "properties")
		_ = unstructured.SetNestedSlice(content, versions, "spec", "versions")
		return
	}
	_ = unstructured.SetNestedMap(content, pieces, at...)
}

// paddingName is the name of piece n. All have one length.
func paddingName(n int) string { return fmt.Sprintf("SETTING_%04d", n) }

// paddingPlace is where objects take text: "env" for the variables of the first container.
func (p *resourcePlan) paddingPlace() []string {
	switch p.kind {
	case KindPod:
		return []string{"spec", "env"}
	case KindDeployment, KindReplicaSet, "daemonsets", "statefulsets", "replicationcontrollers":
		return []string{"spec", "template", "spec", "env"}
	case "jobs":
		return []string{"spec", "template", "spec", "env"}
	case "cronjobs":
		return []string{"spec", "jobTemplate", "spec", "template", "spec", "env"}
	case "podtemplates":
		return []string{"template", "spec", "env"}
	case KindConfigMap, KindSecret, "controllerrevisions":
		return []string{"data"}
	case KindCustomObject:
		return []string{"spec"}
	case KindCRD:
		return []string{"schema"}
	}
	return []string{"metadata", "annotations"}
}
