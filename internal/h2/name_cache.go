package h2

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxCachedNames bounds what a connection remembers of names in each direction.
const maxCachedNames = 64

// nameCache remembers how header names are written: canonically in Go, in lower case
// on the wire.
type nameCache struct{ canonicals, lowers map[string]string }

func (n *nameCache) canonical(wire string) string {
	return cachedName(&n.canonicals, wire, http.CanonicalHeaderKey)
}

// lower returns nothing for what is no header name.
func (n *nameCache) lower(name string) string {
	return cachedName(&n.lowers, name, func(name string) string {
		if !httpguts.ValidHeaderFieldName(name) {
			return ""
		}
		return strings.ToLower(name)
	})
}

func cachedName(known *map[string]string, name string, translate func(string) string) string {
	if t, ok := (*known)[name]; ok {
		return t
	}
	t := translate(name)
	if len(*known) < maxCachedNames && len(name) <= maxCachedNames {
		if *known == nil {
			*known = make(map[string]string)
		}
		(*known)[strings.Clone(name)] = t
	}
	return t
}
