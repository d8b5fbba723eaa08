package fill

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// minPayload is the smallest size of an object's data as JSON, in bytes.
	minPayload = 40
	// maxValue is the length in bytes above which data is split over several keys.
	maxValue = 16 << 10
)

// dataSizer computes the size of a config map or secret without its data. Objects
// of one kind differ in size only by the length of their application's name.
// Therefore one measured sample is enough for all of them.
type dataSizer struct {
	size      int // of the measured object
	appLength int // length of its application's name
	mentions  int // how often that name occurs
}

// prepare measures a sample without data. app is the name of its application.
func (d *dataSizer) prepare(sample Object, app string) error {
	text, err := json.Marshal(sample)
	if err != nil {
		return fmt.Errorf("measure %T: %w", sample, err)
	}
	*d = dataSizer{size: len(text), appLength: len(app), mentions: strings.Count(string(text), app)}
	return nil
}

// emptySize returns the size of an object without data, in bytes. app is the
// length of its application's name.
func (d *dataSizer) emptySize(app int) int { return d.size + d.mentions*(app-d.appLength) }

// eachValue splits size bytes of JSON over several keys, and calls add for each. keyFormat
// makes a key of its number. length is the length of the value in JSON, in bytes.
func eachValue(size int, keyFormat string, add func(key string, length int)) {
	for n := 0; size > 0; n++ {
		key := fmt.Sprintf(keyFormat, n)
		length := size - len(key) - len(`"":"",`)
		if length > 5*maxValue/4 {
			length = maxValue
		}
		add(key, length)
		size -= len(key) + len(`"":"",`) + max(length, 1)
	}
}

// ConfigMap returns config map i.
func (g *Generator) ConfigMap(i int) *corev1.ConfigMap {
	draw := newStream(g.shape.Seed, drawConfigMap, i)
	left := g.shape.ConfigMapSize - g.configMaps.emptySize(len(g.words.apps[i%len(g.words.apps)])) - len(`,"data":{}`)
	data := make(map[string]string, left/maxValue+1)
	eachValue(left, "application-%02d.yaml", func(key string, length int) {
		text := excerpt(g.fileText, &draw, max(length, 1))
		// A line break takes two bytes in JSON.
		data[key] = text[:max(1, len(text)-strings.Count(text, "\n"))]
	})
	return g.configMapWithData(i, data)
}

// configMapWithData returns config map i with the given data.
func (g *Generator) configMapWithData(i int, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: g.dataMeta("config", drawConfigMap, i),
		Data:       data,
	}
}

// Secret returns secret i. Its data is random, because real keys and tokens do
// not compress either.
func (g *Generator) Secret(i int) *corev1.Secret {
	draw := newStream(^g.shape.Seed, drawSecret, i)
	left := g.shape.SecretSize - g.secrets.emptySize(len(g.words.apps[i%len(g.words.apps)])) - len(`,"data":{}`)
	data := make(map[string][]byte, left/maxValue+1)
	eachValue(left, "token-%02d", func(key string, length int) {
		raw := make([]byte, max(1, base64.StdEncoding.DecodedLen(length)))
		draw.fill(raw)
		data[key] = raw
	})
	return g.secretWithData(i, data)
}

// secretWithData returns secret i with the given data.
func (g *Generator) secretWithData(i int, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: g.dataMeta("secret", drawSecret, i),
		Data:       data,
		Type:       corev1.SecretTypeOpaque,
	}
}

// dataMeta returns the metadata of config map or secret i. role is part of the name and
// distinguishes the two kinds, as purpose does their draws.
func (g *Generator) dataMeta(role string, purpose uint64, i int) metav1.ObjectMeta {
	const fields = `{"f:data":{},"f:metadata":{"f:annotations":{".":{},"f:meta.helm.sh/release-name":{}},` +
		`"f:labels":{".":{},"f:app":{},"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{},` +
		`"f:millrace.io/fill":{}}}}`
	draw := newStream(g.shape.Seed, purpose, i)
	app := g.words.apps[i%len(g.words.apps)]
	created := draw.instant(-30, 60)
	return metav1.ObjectMeta{
		Name:              fmt.Sprintf("%s-%s-%07d", app, role, i),
		Namespace:         g.namespaceName(i % g.shape.Namespaces),
		UID:               draw.uid(),
		CreationTimestamp: created,
		Labels: map[string]string{
			"app":                          app,
			"app.kubernetes.io/name":       app,
			"app.kubernetes.io/managed-by": "Helm",
			LabelSeed:                      g.seedLabel(),
		},
		Annotations:   map[string]string{"meta.helm.sh/release-name": app},
		ManagedFields: []metav1.ManagedFieldsEntry{managedEntry("helm", "", created, []byte(fields))},
	}
}
