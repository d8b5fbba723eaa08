package analyze

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/useragent"
)

const hashedUserPrefix = "user-"

// nameHasher replaces names that the owner of a cluster may want to keep secret by hashes with a
// salt. Equal names get equal hashes with the same salt.
//
// Users, programs and resources of Kubernetes itself keep their names. Service accounts do not,
// whatever their namespace is.
type nameHasher struct{ salt string }

// hash returns the hash of a name, with a prefix that says what it names. An empty name stays
// empty.
func (h nameHasher) hash(prefix, name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(h.salt + "\x00" + prefix + name))
	return prefix + hex.EncodeToString(sum[:5])
}

// hashClient hashes the names of a user and a program, unless they are Kubernetes' own names or names of
// common libraries.
func (h nameHasher) hashClient(c serverreport.Client) serverreport.Client {
	if !isComponent(c.User) {
		c.User = h.hash(hashedUserPrefix, c.User)
	}
	if useragent.IdentifiesWorkload(c.UserAgent) {
		c.UserAgent = h.hash("agent-", c.UserAgent)
	}
	return c
}

// hashEncodings returns the known encodings of programs by their hashed names. A hashed name no
// longer says which encoding a program asks for. overrides are the encodings by name that the user
// has given.
func (h nameHasher) hashEncodings(c *collector, overrides map[string]string) map[string]string {
	encodings := map[string]string{}
	for key := range c.cells.rows {
		program := key.client.UserAgent
		encoding, known := useragent.Encoding(program, key.Verb, "pods", overrides)
		if known && (useragent.IdentifiesWorkload(program) || overrides[program] != "") {
			encodings[h.hashClient(key.client).UserAgent] = encoding
		}
	}
	return encodings
}

// hashResource hashes the names of custom resources. Their subresources stay, as they are
// Kubernetes' own.
func (h nameHasher) hashResource(name string) string {
	if name == "" || clusterprofile.BuiltIn(name) {
		return name
	}
	name, subresource, found := strings.Cut(name, "/")
	name = h.hash("resource-", name) + ".hashed"
	switch {
	case !found:
		return name
	case subresource == "status" || subresource == "scale":
		return name + "/" + subresource
	}
	return name + "/" + h.hash("subresource-", subresource)
}

// knownPaths are the first parts of Kubernetes' own paths whose second parts are not names.
var knownPaths = []string{
	"", ".well-known", "api", "apis", "debug", "flagz", "healthz", "livez", "metrics",
	"openapi", "openid", "readyz", "statusz", "swagger.json", "version",
}

// hashPath hashes the first parts of a path of no resource, unless they are Kubernetes' own. Paths
// of discovery have custom groups in their second part.
func (h nameHasher) hashPath(name string) string {
	first, second, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	switch {
	case !strings.HasPrefix(name, "/") || !slices.Contains(knownPaths, first) || first == "" && second != "":
		return "/" + h.hash("path-", name)
	case first == "apis" && second != "" && !clusterprofile.BuiltIn("."+second):
		return "/apis/" + h.hash("group-", second)
	}
	return name
}

// hashSelectors hashes keys of labels, and leaves the keys of fields.
func (h nameHasher) hashSelectors(s *serverreport.Shape) {
	keys := s.SelectorKeys("labels")
	for i := range keys {
		keys[i] = h.hash("label-", keys[i])
	}
	if len(keys) > 0 {
		s.Selectors = serverreport.FormatSelectors(keys, s.SelectorKeys("fields"), s.SelectorKeys("shard")...)
	}
}

// hashCollector hashes the names in a collector. The caller must not observe events after it.
func (h nameHasher) hashCollector(c *collector) {
	cells, clients, resources := map[cellKey]*cell{}, map[serverreport.Client]*client{}, map[string]*resourceCounts{}
	for key, v := range c.cells.rows {
		hash := h.hashResource
		if key.Version == "" {
			hash = h.hashPath
		}
		key.client, key.Resource = h.hashClient(key.client), hash(key.Resource)
		h.hashSelectors(&key.Shape)
		v.namespace = h.hash("namespace-", v.namespace)
		cells[key] = v
	}
	for client, v := range c.clients.rows {
		clients[h.hashClient(client)] = v
	}
	for name, v := range c.resources.rows {
		resources[h.hashResource(name)] = v
	}
	c.cells.rows, c.clients.rows, c.resources.rows = cells, clients, resources
}

// hashProfile hashes the names of resources and labels in a profile.
func (h nameHasher) hashProfile(p *clusterprofile.Profile) {
	for i := range p.Resources {
		r := &p.Resources[i]
		r.Resource = h.hashResource(r.Resource)
		for j := range r.Labels {
			r.Labels[j].Key = h.hash("label-", r.Labels[j].Key)
		}
	}
}
