package apifeed

import (
	kjson "sigs.k8s.io/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// jsonHead is what is read of an object in JSON.
type jsonHead struct {
	Kind     string   `json:"kind"`
	Metadata jsonMeta `json:"metadata"`
}

type jsonMeta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}

// jsonObject reads the metadata of an object. Names have to be exact, as in Kubernetes: an
// object of a definition that preserves unknown fields may also have "Metadata".
func jsonObject(value []byte) (object, error) {
	head, ok := readJSONHead(value)
	if !ok {
		head = jsonHead{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &head); err != nil {
			return object{}, err
		}
	}
	m := &head.Metadata
	revision, err := parseRevision(m.ResourceVersion)
	return object{
		namespace: m.Namespace, name: m.Name, revision: revision, value: value, hasKind: head.Kind != "",
		endsInitial: m.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	}, err
}

// readJSONHead reads an object without decoding it. It reports false if the text is not
// canonical.
func readJSONHead(value []byte) (head jsonHead, ok bool) {
	l := storedjson.NewLexer(value)
	seen := false
	for more := l.BeginObject(); more; more = l.NextField() {
		switch string(l.Name()) {
		case "kind":
			head.Kind = readString(&l)
		case "metadata":
			l.RefuseIf(seen)
			seen = true
			readJSONMeta(&l, &head.Metadata)
		default:
			l.Value()
		}
	}
	return head, l.Done()
}

func readJSONMeta(l *storedjson.Lexer, m *jsonMeta) {
	for more := l.BeginObject(); more; more = l.NextField() {
		switch string(l.Name()) {
		case "name":
			m.Name = readString(l)
		case "namespace":
			m.Namespace = readString(l)
		case "resourceVersion":
			m.ResourceVersion = readString(l)
		case "annotations":
			m.Annotations = readEndAnnotation(l)
		default:
			l.Value()
		}
	}
}

// readEndAnnotation reads of the annotations only the one that ends initial events.
func readEndAnnotation(l *storedjson.Lexer) (read map[string]string) {
	for more := l.BeginObject(); more; more = l.NextField() {
		if string(l.Name()) == metav1.InitialEventsAnnotationKey {
			read = map[string]string{metav1.InitialEventsAnnotationKey: readString(l)}
		} else {
			l.Value()
		}
	}
	return read
}

func readString(l *storedjson.Lexer) string {
	text, ok := storedjson.Unquote(l.QuotedText())
	l.RefuseIf(!ok)
	return text
}
