package differential

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
)

// Kubernetes loses or repeats objects if a list over all namespaces has pages
// and its field selector requires one namespace. It narrows the first page to
// the namespace and returns a token that continues within it, but it does not
// narrow later pages. The pages of a list of the namespace are correct. So the
// tests request these from the stock server.

// pageToken is the content of a continue token.
type pageToken struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

func readToken(text string) (pageToken, bool) {
	var content pageToken
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return content, err == nil && json.Unmarshal(raw, &content) == nil
}

// pinned returns the namespace to which r is narrowed, if r is a list over all
// namespaces that has pages.
func pinned(r request) (namespace string, q url.Values, ok bool) {
	q, err := url.ParseQuery(r.query)
	if err != nil || r.verb() != http.MethodGet || r.as == anonymous || strings.Contains(r.path, "/namespaces/") || !q.Has("limit") && !q.Has("continue") {
		return "", nil, false
	}
	selector, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return "", nil, false
	}
	namespace, ok = selector.RequiresExactMatch("metadata.namespace")
	return namespace, q, ok && len(validation.ValidateNamespaceName(namespace, false)) == 0
}

// inNamespace turns a list that is narrowed to a namespace into a list of that
// namespace.
func (p *pair) inNamespace(r request) (within request, namespace string) {
	namespace, q, ok := pinned(r)
	if !ok || !p.namespaced[r.path] {
		return r, ""
	}
	if token, ok := readToken(q.Get("continue")); ok {
		start := strings.TrimPrefix(token.Start, "/")
		if rest, below := strings.CutPrefix(start, namespace+"/"); below && path.Clean("/"+start) == "/"+start {
			token.Start = rest
			q.Set("continue", token.text())
		}
	}
	at := strings.LastIndex(r.path, "/")
	r.path, r.query = r.path[:at]+"/namespaces/"+namespace+r.path[at:], q.Encode()
	return r, namespace
}

func (t pageToken) text() string {
	return token(fmt.Sprintf(`{"v":%q,"rv":%d,"start":%s}`, t.Version, t.Revision, quoted(t.Start)))
}

func quoted(text string) []byte {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // Strings always marshal.
	}
	return out
}

// elsewhere reports whether a list that is narrowed to a namespace continues in
// another namespace. A list of the namespace cannot express that.
func elsewhere(r request) bool {
	namespace, q, ok := pinned(r)
	if !ok {
		return false
	}
	token, ok := readToken(q.Get("continue"))
	start := strings.TrimPrefix(token.Start, "/")
	return ok && strings.Contains(start, "/") && !strings.HasPrefix(start, namespace+"/")
}

// narrowed follows narrowed lists to their last page, in each form and with the
// first tokens of either server. Kubernetes understands our tokens.
func (p *pair) narrowed(t *testing.T, kinds []*kind, now int64) {
	for i, resource := range []string{"configmaps", "pods", "events", "widgets", "leases"} {
		k := named(kinds, resource)
		for j, accept := range []string{"", protobuf, kubectlGet, metadataClient, "application/yaml"} {
			if resource == "widgets" && accept == protobuf {
				continue
			}
			selector := "metadata.namespace=" + namespaces[(i+j)%len(namespaces)]
			if j%2 == 1 {
				selector += ",metadata.name!=" + k.keys[0][strings.Index(k.keys[0], "/")+1:]
			}
			q := query{{"fieldSelector", selector}, {"limit", fmt.Sprint(2 + 5*(j%3))}}
			if j%3 == 1 {
				q = q.with("resourceVersion", fmt.Sprint(now)).with("resourceVersionMatch", "Exact")
			}
			r := request{path: k.listPath(""), listPath: k.listPath(""), accept: accept}
			p.walk(t, r, q, p.compare)
			p.continued(t, r, q)
		}
	}
}

// continued sends the token of each server's first page to the other server.
func (p *pair) continued(t *testing.T, r request, q query) {
	t.Helper()
	r.query = q.String()
	first, err := p.theirs.do(r)
	if err != nil {
		t.Fatal(err)
	}
	q = q.without("resourceVersion", "resourceVersionMatch")
	if token := continueToken(first.body); token != "" {
		p.walk(t, r, q.with("continue", token), p.compare)
	}
	if first, err = p.ours.do(r); err != nil {
		t.Fatal(err)
	}
	token := continueToken(first.body)
	if token == "" {
		return
	}
	r.query = q.without("limit").with("continue", token).String()
	ours, theirs, err := p.bothAsked(r, r)
	if err != nil {
		t.Fatal(err)
	}
	if mismatch := p.difference(ours, theirs); mismatch != "" {
		t.Errorf("the rest, with our token: %s\n%s", r, mismatch)
	}
}
