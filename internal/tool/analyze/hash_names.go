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

// nameHasher replaces names that the owner of a cluster may want to keep by a hash with a
// salt. Equal names get equal hashes with the same salt.
//
// Users and programs of Kubernetes itself keep their names, and so do its resources. Service
// accounts do not, in whatever namespace.
type nameHasher struct{ salt string }

func (h nameHasher) hash(prefix, name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(h.salt + "\x00" + prefix + name))
	return prefix + hex.EncodeToString(sum[:5])
}

func (h nameHasher) client(c serverreport.Client) serverreport.Client {
	if !isComponent(c.User) {
		c.User = h.hash(hashedUserPrefix, c.User)
	}
	if useragent.IdentifiesWorkload(c.UserAgent) {
		c.UserAgent = h.hash("agent-", c.UserAgent)
	}
	return c
}

// forms returns the forms of programs by their hashed names: those that were given, and those
// that their names tell.
func (h nameHasher) forms(c *collector, given map[string]string) map[string]string {
	forms := map[string]string{}
	for key := range c.cells.rows {
		program := key.client.UserAgent
		if form, sure := useragent.Encoding(program, key.Verb, "pods", given); sure && (useragent.IdentifiesWorkload(program) || given[program] != "") {
			forms[h.client(key.client).UserAgent] = form
		}
	}
	return forms
}

// resource hashes the names of custom resources. Their subresources stay, as they are
// Kubernetes' own.
func (h nameHasher) resource(name string) string {
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

// knownPaths are the first parts of Kubernetes' own paths whose second parts are no names.
var knownPaths = []string{"", ".well-known", "api", "apis", "debug", "flagz", "healthz", "livez", "metrics", "openapi", "openid", "readyz", "statusz", "swagger.json", "version"}

// path hashes the first parts of a path that is none of a resource, unless they are
// Kubernetes' own. Discovery has custom groups in its second part.
func (h nameHasher) path(name string) string {
	first, second, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	switch {
	case !strings.HasPrefix(name, "/") || !slices.Contains(knownPaths, first) || first == "" && second != "":
		return "/" + h.hash("path-", name)
	case first == "apis" && second != "" && !clusterprofile.BuiltIn("."+second):
		return "/apis/" + h.hash("group-", second)
	}
	return name
}

// selectors hashes keys of labels, and leaves those of fields.
func (h nameHasher) selectors(s *serverreport.Shape) {
	keys := s.SelectorKeys("labels")
	for i := range keys {
		keys[i] = h.hash("label-", keys[i])
	}
	if len(keys) > 0 {
		s.Selectors = serverreport.FormatSelectors(keys, s.SelectorKeys("fields"), s.SelectorKeys("shard")...)
	}
}

// collector hashes the names that were collected. Nothing may be observed after it.
func (h nameHasher) collector(c *collector) {
	cells, clients, resources := map[cellKey]*cell{}, map[serverreport.Client]*client{}, map[string]*resourceCounts{}
	for key, v := range c.cells.rows {
		hash := h.resource
		if key.Version == "" {
			hash = h.path
		}
		key.client, key.Resource = h.client(key.client), hash(key.Resource)
		h.selectors(&key.Shape)
		v.namespace = h.hash("namespace-", v.namespace)
		cells[key] = v
	}
	for who, v := range c.clients.rows {
		clients[h.client(who)] = v
	}
	for name, v := range c.resources.rows {
		resources[h.resource(name)] = v
	}
	c.cells.rows, c.clients.rows, c.resources.rows = cells, clients, resources
}

func (h nameHasher) profile(p *clusterprofile.Profile) {
	for i := range p.Resources {
		r := &p.Resources[i]
		r.Resource = h.resource(r.Resource)
		for j := range r.Labels {
			r.Labels[j].Key = h.hash("label-", r.Labels[j].Key)
		}
	}
}
