package differential

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kubernetes reads the key in a continue token with or without a leading slash.
// It writes the slash if its watch cache answers, and omits it if etcd does.
// The choice depends on the contents of the cache, so only the case that
// compares tokens compares the slash.
var (
	tokenInJSON = regexp.MustCompile(`"continue": ?"([A-Za-z0-9_-]+)"`)
	tokenInYAML = regexp.MustCompile(`(?m)^  continue: ([A-Za-z0-9_-]+)$`)
	tokenInAny  = regexp.MustCompile(string(tokenStart[:len(tokenStart)-1]) + `[A-Za-z0-9_-]*`)
	tokenStart  = []byte(base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1",`)))
)

// withoutTokens replaces the continue token of a list by its meaning within a
// namespace, or within all namespaces if namespace is "".
func withoutTokens(body []byte, namespace string) []byte {
	switch {
	case !bytes.Contains(body, tokenStart[:len(tokenStart)-1]):
		return body
	case bytes.HasPrefix(body, []byte("k8s\x00")):
		return withoutProtobufToken(body, namespace)
	}
	for _, form := range []*regexp.Regexp{tokenInJSON, tokenInYAML} {
		body = form.ReplaceAllFunc(body, func(match []byte) []byte {
			return fmt.Appendf(nil, "%q", meaning(form.FindSubmatch(match)[1], namespace))
		})
	}
	return body
}

func meaning(token []byte, namespace string) string {
	content, ok := readToken(string(token))
	if !ok {
		return string(token)
	}
	start := strings.TrimPrefix(content.Start, "/")
	if namespace != "" {
		start = strings.TrimPrefix(start, namespace+"/")
	}
	return fmt.Sprintf("token %s %d %q", content.Version, content.Revision, start)
}

// withoutProtobufToken replaces the token in the list's metadata. In protobuf
// it is field 3 of field 1 of the object, which is field 2 of the envelope; one
// old type has its metadata in field 2. The lengths that enclose the token are
// removed, since they depend on it.
func withoutProtobufToken(body []byte, namespace string) []byte {
	path := []protowire.Number{2, 1, 3}
	if bytes.HasPrefix(body[4:], []byte("\n0\n\x13meta.k8s.io/v1beta1\x12\x19PartialObjectMetadataList")) {
		path[1] = 2
	}
	var out []byte
	rewrite(&out, body[4:], path, namespace)
	return out
}

func rewrite(out *[]byte, message []byte, path []protowire.Number, namespace string) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeField(message)
		if n < 0 {
			*out = append(*out, message...)
			return
		}
		field := message[:n]
		message = message[n:]
		_, _, tag := protowire.ConsumeTag(field)
		if number != path[0] || kind != protowire.BytesType {
			*out = append(*out, field...)
			continue
		}
		content, _ := protowire.ConsumeBytes(field[tag:])
		if len(path) == 1 {
			*out = append(*out, meaning(content, namespace)...)
			continue
		}
		rewrite(out, content, path[1:], namespace)
	}
}

// continueToken returns the token of the next page from a list in any encoding.
func continueToken(body []byte) string { return string(tokenInAny.Find(body)) }

// token encodes the content of a token as servers do.
func token(content string) string { return base64.RawURLEncoding.EncodeToString([]byte(content)) }

// tokens compares first pages, and the pages after the tokens of either server,
// byte for byte. Kubernetes' watch cache answers all of these requests.
func (p *pair) tokens(t *testing.T, kinds []*kind) {
	exactly := p.exactly()
	lists := 0
	for i, k := range kinds {
		if !k.lists || !k.stored() || len(k.keys) < 2 {
			continue
		}
		paths := []string{k.listPath("")}
		if k.namespaced {
			paths = append(paths, k.listPath(namespaces[0]))
		}
		for j, path := range paths {
			r := request{path: path, listPath: k.listPath(""), accept: []string{"", kubectlGet, metadataClient}[(i+j)%3]}
			q := query{{"limit", fmt.Sprint(max(1, len(k.keys)/4))}}
			exactly.walk(t, r, q, exactly.compare)
			lists++
			r.query = q.String()
			for _, s := range []*side{p.ours, p.theirs} {
				got, err := s.do(r)
				if err != nil {
					t.Fatal(err)
				}
				content, ok := readToken(continueToken(got.body))
				if !ok {
					continue // The namespace has fewer objects.
				}
				// The error for a compacted token offers such a token.
				content.Revision = -1
				exactly.walk(t, r, q.with("continue", content.text()), exactly.compare)
			}
		}
	}
	t.Logf("%d lists", lists)
}
