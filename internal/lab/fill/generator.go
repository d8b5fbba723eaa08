package fill

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// poolSize is the length in bytes of the text from which values are cut. It
// exceeds the 32 KiB window of deflate, so that repeated text is rarely in the
// window.
const poolSize = 1 << 16

// Generator generates the objects of one Shape. Each object depends only on the shape
// and its index, so objects can be made in any order and from any goroutine.
// Indexes beyond the counts of the shape are valid. Equal arguments give equal
// objects.
//
// The pods of one application share their spec and its strings, as the replicas of
// a deployment do. This sharing makes a pod cost only microseconds. The price is
// that callers must not modify an object in place: a caller must DeepCopy it first.
type Generator struct {
	shape     Shape
	words     vocabulary
	hashStart uint64
	envText   string // one line of words
	fileText  string // lines of "key: value"

	configMaps, secrets dataSizer
	nodes               nodeTemplate
	pods                []podTemplateOnce // by application
}

// podTemplateOnce is a template that is built at its first use.
type podTemplateOnce struct {
	once sync.Once
	*podTemplate
}

// NewGenerator checks the shape and replaces its zero values.
func NewGenerator(shape Shape) (*Generator, error) {
	if err := shape.validate(); err != nil {
		return nil, err
	}
	g := &Generator{shape: shape.withDefaults(), words: newVocabulary()}
	// Object i is in namespace i modulo Namespaces. Therefore the generator needs at
	// least one namespace, even if none is to be written.
	g.shape.Namespaces = max(g.shape.Namespaces, 1)
	draw := newStream(g.shape.Seed, drawText, 0)
	g.hashStart = draw.next()
	g.envText, g.fileText = g.makeText(&draw)
	g.pods = make([]podTemplateOnce, len(g.words.apps))

	if err := g.nodes.prepare(g); err != nil {
		return nil, err
	}
	if err := g.configMaps.prepare(g.configMapWithData(0, nil), g.words.apps[0]); err != nil {
		return nil, err
	}
	if err := g.secrets.prepare(g.secretWithData(0, nil), g.words.apps[0]); err != nil {
		return nil, err
	}
	if err := g.checkCRDs(); err != nil {
		return nil, err
	}
	return g, g.checkSizes()
}

// checkSizes returns an error if an object with the longest application name cannot
// be made as small as the shape wants it.
func (g *Generator) checkSizes() error {
	longest := g.words.longestApp()
	smallest := g.buildPod(longest, podShape{pad: 1}).size()
	app := len(g.words.apps[longest])
	for _, c := range []struct {
		flag         string
		size, lowest int
	}{
		{"pod-size", g.shape.PodSize, smallest},
		{"secret-size", g.shape.SecretSize, g.secrets.emptySize(app) + minPayload},
		{"configmap-size", g.shape.ConfigMapSize, g.configMaps.emptySize(app) + minPayload},
	} {
		if lowest := (c.lowest + 49) / 50 * 50; c.size < lowest {
			return fmt.Errorf("%s is %d bytes: the smallest possible size is %d", c.flag, c.size, lowest)
		}
	}
	return nil
}

// makeText returns the two texts from which values are cut, each poolSize bytes long.
func (g *Generator) makeText(draw *stream) (env, file string) {
	word := func() string { return g.words.plain[draw.intBelow(len(g.words.plain))] }
	var line, lines strings.Builder
	for line.Len() < poolSize {
		line.WriteString(word())
		line.WriteByte("-./:_,= "[draw.intBelow(8)])
		if draw.intBelow(3) == 0 {
			line.WriteString(strconv.Itoa(draw.intBelow(10000)))
			line.WriteByte('-')
		}
	}
	for lines.Len() < poolSize {
		lines.WriteString(word() + "." + word() + ": " + word() + strconv.Itoa(draw.intBelow(10000)) + "\n")
	}
	return line.String()[:poolSize], lines.String()[:poolSize]
}

// excerpt returns length bytes of text from a random position. The result shares
// memory with text, unless the excerpt wraps around the end of text.
func excerpt(text string, draw *stream, length int) string {
	start := draw.intBelow(len(text))
	if start+length <= len(text) {
		return text[start : start+length]
	}
	var b strings.Builder
	b.Grow(length)
	b.WriteString(text[start:])
	for b.Len() < length {
		b.WriteString(text[:min(len(text), length-b.Len())])
	}
	return b.String()
}

// Shape returns the shape with defaults in place of its zero values.
func (g *Generator) Shape() Shape { return g.shape }

// Object returns object i of one of Kinds.
func (g *Generator) Object(kind Kind, i int) (Object, error) {
	switch kind {
	case KindNamespace:
		return g.Namespace(i), nil
	case KindServiceAccount:
		return g.ServiceAccount(i), nil
	case KindNode:
		return g.Node(i), nil
	case KindConfigMap:
		return g.ConfigMap(i), nil
	case KindSecret:
		return g.Secret(i), nil
	case KindPod:
		return g.Pod(i), nil
	case KindDeployment:
		return g.Deployment(i), nil
	case KindReplicaSet:
		return g.ReplicaSet(i), nil
	case KindService:
		return g.Service(i), nil
	case KindEndpointSlice:
		return g.EndpointSlice(i), nil
	case KindLease:
		return g.Lease(i), nil
	case KindEvent:
		return g.Event(i), nil
	case KindCRD:
		return g.CRD(i), nil
	case KindCustomObject:
		return g.CustomObject(i), nil
	}
	return nil, fmt.Errorf("generate object: unknown kind %q", kind)
}

// Namespace returns namespace i.
func (g *Generator) Namespace(i int) *corev1.Namespace {
	draw := newStream(g.shape.Seed, drawNamespace, i)
	name := g.namespaceName(i)
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			UID:               draw.uid(),
			CreationTimestamp: draw.instant(-90, 30),
			Labels: map[string]string{
				LabelSeed:                     g.seedLabel(),
				"kubernetes.io/metadata.name": name,
				"team":                        "team-" + strconv.Itoa(i%20),
			},
		},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

// ServiceAccount returns the default service account of namespace i. Without it, a
// server admits no pods in the namespace.
func (g *Generator) ServiceAccount(i int) *corev1.ServiceAccount {
	draw := newStream(g.shape.Seed, drawServiceAccount, i)
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              "default",
			Namespace:         g.namespaceName(i),
			UID:               draw.uid(),
			CreationTimestamp: draw.instant(-90, 30),
			Labels:            map[string]string{LabelSeed: g.seedLabel()},
		},
	}
}

func (g *Generator) seedLabel() string { return strconv.FormatUint(g.shape.Seed, 10) }
