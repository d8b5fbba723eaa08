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

// resourcePlan says which objects of one resource of a profile to write.
type resourcePlan struct {
	kind       Kind   // KindCustomObject for all custom resources
	base       string // the API path of group and version
	name       string // the resource's name in API paths
	namespaced bool
	numbers    *clusterprofile.Resource
	total      int // number of objects in the profile
	n          int // number of objects to write: total without the objects of others
	namespaces int // number of namespaces in the profile
	seed       uint64

	// Set once all resources are planned.
	g              *Generator
	custom         []*resourcePlan // of all custom resources
	madeNamespaces int             // number of namespaces that the run makes
	api            *apiClient

	sizes     sizeDistribution
	sizeOrder permutation
	labels    []valueDistribution
	node      *valueDistribution // of spec.nodeName; nil: pods keep the generator's node
	placement namespaceDistribution

	measure    sync.Once
	overhead   overhead // set by measure, as is measureErr
	measureErr error
}

// newResourcePlan returns the plan of a resource. It returns nil if fill cannot make its objects.
func newResourcePlan(r *clusterprofile.Resource, seed uint64) *resourcePlan {
	p := &resourcePlan{numbers: r, total: round(r.Objects), n: round(r.Objects), namespaces: round(r.Namespaces), seed: seed}
	p.sizes = newSizeDistribution(r, p.total)
	name, group, _ := strings.Cut(r.Resource, ".")
	p.name = name
	if !clusterprofile.BuiltIn(r.Resource) {
		p.kind = KindCustomObject
		p.base = "/apis/" + group + "/" + crdVersion
		p.namespaced = r.Namespaces > 0
		return p
	}
	for _, kind := range ProfileKinds() {
		if kind != KindCustomObject && ResourceName(kind) == r.Resource {
			p.kind = kind
			p.base = kind.api()
			p.namespaced = kind.Namespaced()
			return p
		}
	}
	return nil
}

// distribute decides which object has which size, labels and namespace.
func (p *resourcePlan) distribute() {
	n := max(p.total, p.n)
	draw := newStream(p.seed, drawProfile, 0)
	for _, c := range []byte(p.numbers.Resource) {
		draw.state = splitMix64(draw.state + uint64(c))
	}
	p.sizeOrder = newPermutation(n, &draw)
	p.placement = newNamespaceDistribution(p.numbers, n, p.namespaces, &draw)
	for _, key := range p.numbers.Labels {
		if key.Key != LabelSeed && !isSetByServers(key.Key) {
			p.labels = append(p.labels, newValueDistribution(key, n, &draw))
		}
	}
	i := slices.IndexFunc(p.numbers.Fields, func(k clusterprofile.Key) bool { return k.Key == "spec.nodeName" })
	if i >= 0 && p.kind == KindPod {
		node := newValueDistribution(p.numbers.Fields[i], n, &draw)
		p.node = &node
	}
}

// isSetByServers reports whether servers set a label themselves, or refuse values that they
// do not know.
func isSetByServers(key string) bool {
	return key == "kubernetes.io/metadata.name" || strings.HasPrefix(key, "pod-security.kubernetes.io/")
}

// collection returns the API path of the objects in a namespace, or of all for "".
func (p *resourcePlan) collection(namespace string) string {
	if namespace == "" {
		return p.base + "/" + p.name
	}
	return p.base + "/namespaces/" + namespace + "/" + p.name
}

// object returns object i, padded to its size. The first call measures the overhead with dry
// runs; other callers wait for it.
func (p *resourcePlan) object(ctx context.Context, i int) (Object, error) {
	p.measure.Do(func() { p.overhead, p.measureErr = p.measureOverhead(ctx) })
	if p.measureErr != nil {
		return nil, p.measureErr
	}
	object, err := p.bare(i)
	if err != nil {
		return nil, err
	}
	size, err := p.overhead.listedSize(object)
	if err != nil {
		return nil, err
	}
	if missing := p.sizes.sizeAtRank(p.sizeOrder.position(i), p.sizeOrder.n) - float64(size); missing > 0 {
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
		object.SetNamespace(p.g.namespaceName(p.placement.namespaceNumber(i)))
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
		if value, ok := key.valueNumber(i); ok {
			labels[key.key] = fmt.Sprintf("v%d", value)
		}
	}
	object.SetLabels(labels)
	if p.node != nil {
		unstructured.RemoveNestedField(content, "spec", "nodeName")
		if value, ok := p.node.valueNumber(i); ok && p.g.shape.Nodes > 0 {
			_ = unstructured.SetNestedField(content, p.g.nodeName(value%p.g.shape.Nodes), "spec", "nodeName") // spec is an object
		}
	}
	return object, nil
}

// content returns object i without its labels and padding. Most kinds have neither name nor
// namespace in it.
func (p *resourcePlan) content(i int) (map[string]any, error) {
	if other, ok := findOtherKind(p.kind); ok {
		return decode([]byte(other.objectJSON(i)))
	}
	switch p.kind {
	case KindCRD:
		return p.definitionContent(i), nil
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
		if i >= p.madeNamespaces { // the first accounts are named default, and pods need them
			_ = unstructured.SetNestedField(content, fmt.Sprintf("fill-%07d", i), "metadata", "name") // metadata is an object
		}
	case KindPod:
		delete(content, "status") // a server sets its own
	}
	return content, nil
}

// decode returns the JSON object in text.
func decode(text []byte) (map[string]any, error) {
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return content, nil
}

// definitionContent returns definition i, whose schema accepts any object. The first
// definitions are of the profile's custom resources. Further definitions are in groups of fill's own.
func (p *resourcePlan) definitionContent(i int) map[string]any {
	name := fmt.Sprintf("fill%dn%d", p.seed, i)
	group := fmt.Sprintf("g%03d%s", i/10, CRDGroupSuffix)
	scope := "Namespaced"
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

// pad adds pieces of text with the given lengths, in bytes, to object i. paddingPlace says where.
func (p *resourcePlan) pad(object *placedObject, lengths []int, i int) {
	if len(lengths) == 0 {
		return
	}
	draw := newStream(p.seed, drawPadding, i)
	content := object.asMap()
	place := p.paddingPlace()
	if place[len(place)-1] == "env" {
		path := append(slices.Clone(place[:len(place)-1]), "containers")
		containers, _, _ := unstructured.NestedSlice(content, path...) // each template has one
		first := containers[0].(map[string]any)
		env, _ := first["env"].([]any)
		for n, length := range lengths {
			env = append(env, map[string]any{"name": paddingName(n), "value": excerpt(p.g.envText, &draw, length)})
		}
		first["env"] = env
		_ = unstructured.SetNestedSlice(content, containers, path...)
		return
	}
	pieces, _, _ := unstructured.NestedMap(content, place...) // nil if there is no map yet
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
	_ = unstructured.SetNestedMap(content, pieces, place...)
}

// paddingName returns the name of piece n. All names have the same length.
func paddingName(n int) string { return fmt.Sprintf("SETTING_%04d", n) }

// paddingPlace returns the path of the field to pad. "env" at its end stands for the variables
// of the first container.
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
