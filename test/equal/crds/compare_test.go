package crds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/test/support/harness"
)

// normaliserPair has the normalisers of the two sides.
type normaliserPair [2]*normaliser

func newNormaliserPair() normaliserPair { return normaliserPair{newNormaliser(), newNormaliser()} }

func (n normaliserPair) fork() normaliserPair { return normaliserPair{n[0].fork(), n[1].fork()} }

// difference describes how two answers differ. It returns "" if they do not.
func (n normaliserPair) difference(answers [2]*answer, s scope) string {
	var out strings.Builder
	a, b := answers[0], answers[1]
	if a.status != b.status {
		fmt.Fprintf(&out, "  status: ours %d, theirs %d\n", a.status, b.status)
	}
	n.headers(&out, answers)
	var plain [2]string
	for i, a := range answers {
		plain[i] = n[i].answer(a, s)
	}
	out.WriteString(textDifference(plain))
	return out.String()
}

func (n normaliserPair) headers(out *strings.Builder, answers [2]*answer) {
	names := map[string]bool{}
	for _, a := range answers {
		for name := range a.header {
			names[name] = true
		}
	}
	for name := range names {
		var values [2][]string
		for i, a := range answers {
			for _, value := range a.header.Values(name) {
				values[i] = append(values[i], n[i].text(value))
			}
			sortFormats(values[i])
		}
		switch {
		// ETags are digests of bytes, and only the canonical JSON of documents is compared.
		// Lengths depend on the digits of resource versions.
		case harness.IsVolatileHeader(name), name == "Etag", name == "Content-Length":
		case !slices.Equal(values[0], values[1]):
			fmt.Fprintf(out, "  header %s: ours %q, theirs %q\n", name, values[0], values[1])
		}
	}
}

// sortFormats sorts warnings if all of them are about unknown formats. Kubernetes lists
// these in the order of a map.
func sortFormats(values []string) {
	for _, value := range values {
		if !strings.Contains(value, `"unrecognized format `) {
			return
		}
	}
	slices.Sort(values)
}

// answer normalises a body by its media type.
func (n *normaliser) answer(a *answer, s scope) string {
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	body := a.body
	var shape string
	switch media {
	case "application/json":
		if bytes.Contains(body, []byte("\n  ")) {
			shape = "indented\n"
		}
		if !bytes.HasSuffix(body, []byte("\n")) {
			shape += "no newline at the end\n"
		}
	case "application/yaml", "application/apply-patch+yaml":
		plain, err := yaml.YAMLToJSON(body)
		if err != nil {
			return "broken YAML: " + err.Error() + "\n" + string(body)
		}
		body = plain
	case "application/vnd.kubernetes.protobuf":
		plain, err := fromProtobuf(body)
		if err != nil {
			return "broken protobuf: " + err.Error() + "\n" + string(body)
		}
		body = plain
	default:
		return n.text(string(body))
	}
	plain, err := n.body(body, s)
	if err != nil {
		return "broken JSON: " + err.Error() + "\n" + string(a.body)
	}
	return shape + plain
}

// fromProtobuf returns protobuf as JSON. It knows the few types that answers about custom
// resources have as protobuf.
func fromProtobuf(body []byte) ([]byte, error) {
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(bytes.TrimPrefix(body, []byte("k8s\x00"))); err != nil {
		return nil, err
	}
	var into interface{ Unmarshal([]byte) error }
	switch envelope.Kind {
	case "PartialObjectMetadata":
		into = &metav1.PartialObjectMetadata{}
	case "PartialObjectMetadataList":
		into = &metav1.PartialObjectMetadataList{}
	case "Status":
		into = &metav1.Status{}
	default:
		return nil, fmt.Errorf("a %s", envelope.Kind)
	}
	if err := into.Unmarshal(envelope.Raw); err != nil {
		return nil, err
	}
	return json.Marshal([]any{envelope.TypeMeta, into})
}

// shownLines bounds the lines in the description of a difference.
const shownLines = 6

// textDifference describes the first lines that differ. It returns "" if none do.
func textDifference(plain [2]string) string {
	if plain[0] == plain[1] {
		return ""
	}
	a, b := strings.Split(plain[0], "\n"), strings.Split(plain[1], "\n")
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	var out strings.Builder
	fmt.Fprintf(&out, "  differs at line %d of %d and %d\n", at+1, len(a), len(b))
	from := 0
	if at < len(a) && at < len(b) {
		from = max(0, harness.FirstDifference(a[at], b[at])-100)
	}
	for i, lines := range [][]string{a, b} {
		for j, line := range lines[min(at, len(lines)):min(at+shownLines, len(lines))] {
			if j == 0 {
				line = line[min(from, len(line)):]
			}
			fmt.Fprintf(&out, "    %s: %.400s\n", sideNames[i], line)
		}
	}
	return out.String()
}

// accepts maps short names to Accept headers.
var accepts = map[string]string{
	"json":       "application/json",
	"yaml":       "application/yaml",
	"cbor":       "application/cbor",
	"protobuf":   "application/vnd.kubernetes.protobuf",
	"table":      "application/json;as=Table;g=meta.k8s.io;v=v1",
	"tablebeta":  "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
	"partial":    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"partials":   "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	"aggregated": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
}

// contents maps short names to Content-Type headers.
var contents = map[string]string{
	"json":      "application/json",
	"yaml":      "application/yaml",
	"jsonpatch": "application/json-patch+json",
	"merge":     "application/merge-patch+json",
	"strategic": "application/strategic-merge-patch+json",
	"apply":     "application/apply-patch+yaml",
	"protobuf":  "application/vnd.kubernetes.protobuf",
}

// definitionsPath is the path of all definitions.
const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func scopeOf(c call) scope {
	return scope{definitions: strings.HasPrefix(c.path, "/apis/apiextensions.k8s.io/")}
}

func jsonCall(method, path, body string) call {
	c := call{method: method, path: path, body: body, header: http.Header{"Accept": {"application/json"}}}
	if body != "" {
		c.header.Set("Content-Type", "application/json")
	}
	return c
}
