package transcode

import (
	"bytes"
	"reflect"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// relation is something that Kubernetes' defaulting or conversion asks of values, and that
// does not follow from which fields are set. Whether it holds is part of the fingerprint.
type relation func(storedFields) bool

// relationOf is a message's relation with its part of the fingerprint.
type relationOf struct {
	holds relation
	token uint64
}

// storedFields are the fields of a message that is being walked. All of it is well formed.
type storedFields struct {
	message *message
	spans   []span
	content []byte
}

// first returns the first value of a field that is stored with its length. It is empty if
// there is none.
func (s storedFields) first(name string) []byte {
	for i := range s.message.fields {
		if f := &s.message.fields[i]; string(f.name[2:len(f.name)-2]) == name {
			if s.spans[i].to == 0 {
				return nil
			}
			value, _ := payload(s.content, int(s.spans[i].from)+int(f.tagSize))
			return value
		}
	}
	return nil
}

// subfield calls each with the values of a field that is stored with its length, until
// each returns false. content is the message's bytes.
func subfield(content []byte, number uint64, each func(value []byte) (more bool)) {
	for i := 0; i < len(content); {
		tag, n := varint(content, i)
		length, after := varint(content, n)
		if tag&7 == lengthDelimited {
			after += int(length)
			if tag>>3 == number && !each(content[after-int(length):after]) {
				return
			}
		}
		i = after
	}
}

// relationsOf returns the relations of a type. They were found by reading the functions of
// defaulting and conversion of all versions in which objects are stored.
// docs/design/transcode.md lists what else was found and is covered by the fields.
func relationsOf(typ reflect.Type) []relationOf {
	var all []relation
	switch typ {
	case reflect.TypeFor[corev1.PodSpec]():
		all = []relation{accountsAgree}
	case reflect.TypeFor[corev1.PodStatus]():
		all = []relation{podAddressesAgree}
	case reflect.TypeFor[corev1.NodeSpec]():
		all = []relation{nodeRangesAgree}
	case reflect.TypeFor[corev1.Namespace]():
		all = []relation{labelHasName}
	case reflect.TypeFor[appsv1.DaemonSet](), reflect.TypeFor[appsv1.Deployment]():
		all = []relation{deprecatedNumbers}
	}
	relations := make([]relationOf, len(all))
	for i, holds := range all {
		relations[i].holds = holds
	}
	return relations
}

// openingOf returns what begins the objects of a field in JSON. Conversion adds their kind to
// the claim templates of StatefulSets.
//
// Upstream: k8s.io/kubernetes/pkg/apis/apps/v1.Convert_apps_StatefulSetSpec_To_v1_StatefulSetSpec; compare at each upgrade.
func openingOf(typ reflect.Type, name string) []byte {
	if typ == reflect.TypeFor[appsv1.StatefulSetSpec]() && name == "VolumeClaimTemplates" {
		return []byte(`"kind":"PersistentVolumeClaim","apiVersion":"v1"`)
	}
	return nil
}

// accountsAgree compares the two names of a pod's service account, which defaulting makes
// equal.
//
// Upstream: k8s.io/kubernetes/pkg/apis/core/v1.SetDefaults_PodSpec; compare at each upgrade.
func accountsAgree(s storedFields) bool {
	return bytes.Equal(s.first("serviceAccountName"), s.first("serviceAccount"))
}

// podAddressesAgree compares a pod's address with the first of its addresses, which
// defaulting makes equal.
//
// Upstream: k8s.io/kubernetes/pkg/apis/core/v1.SetDefaults_PodStatus; compare at each upgrade.
func podAddressesAgree(s storedFields) bool {
	const addressIP = 1
	var first []byte
	subfield(s.first("podIPs"), addressIP, func(ip []byte) bool { first = ip; return false })
	return bytes.Equal(s.first("podIP"), first)
}

// nodeRangesAgree compares a node's range of addresses with the first of its ranges, which
// conversion makes equal.
//
// Upstream: k8s.io/kubernetes/pkg/apis/core/v1.Convert_v1_NodeSpec_To_core_NodeSpec; compare at each upgrade.
func nodeRangesAgree(s storedFields) bool {
	return bytes.Equal(s.first("podCIDR"), s.first("podCIDRs"))
}

// Protobuf numbers of metav1.ObjectMeta.
const (
	metaName        = 1
	metaLabels      = 11
	metaAnnotations = 12
)

// labelHasName compares a namespace's name with the label that defaulting sets to it.
//
// Upstream: k8s.io/kubernetes/pkg/apis/core/v1.SetDefaults_Namespace; compare at each upgrade.
func labelHasName(s storedFields) bool {
	metadata := s.first("metadata")
	var name []byte
	subfield(metadata, metaName, func(value []byte) bool { name = value; return false })
	holds := false
	eachEntry(metadata, metaLabels, func(key, value []byte) {
		holds = holds || string(key) == corev1.LabelMetadataName && bytes.Equal(value, name)
	})
	return holds
}

// deprecatedNumbers reports whether annotations with numbers that conversion parses and
// formats again have them as conversion writes them.
//
// Upstream: k8s.io/kubernetes/pkg/apis/apps/v1.Convert_v1_DaemonSet_To_apps_DaemonSet; compare at each upgrade.
func deprecatedNumbers(s storedFields) bool {
	holds := true
	eachEntry(s.first("metadata"), metaAnnotations, func(key, value []byte) {
		switch string(key) {
		case appsv1.DeprecatedTemplateGeneration, appsv1.DeprecatedRollbackTo:
			n, err := strconv.ParseInt(string(value), 10, 64)
			holds = holds && err == nil && strconv.FormatInt(n, 10) == string(value)
		}
	})
	return holds
}

// eachEntry calls visit for each entry of a map of texts.
func eachEntry(content []byte, number uint64, visit func(key, value []byte)) {
	subfield(content, number, func(entry []byte) bool {
		if key, value, ok := splitEntry(entry); ok {
			visit(key, value)
		}
		return true
	})
}

// isReserved reports whether a key of a map belongs to Kubernetes. Some
// such keys change what conversion does.
func isReserved(key []byte) bool {
	slash := bytes.LastIndexByte(key, '/')
	if slash < 0 {
		return bytes.HasPrefix(key, []byte("deprecated."))
	}
	domain := key[:slash]
	return bytes.HasSuffix(domain, []byte("kubernetes.io")) || bytes.HasSuffix(domain, []byte("k8s.io"))
}
