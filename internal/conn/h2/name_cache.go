package h2

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxCachedNames bounds the number of names that a connection remembers in each
// direction, and the length of each.
const maxCachedNames = 64

// nameCache remembers both spellings of header names: canonical in Go, lower case on the
// wire. Converting them for each request would allocate. The zero value is empty.
type nameCache struct{ canonicals, lowers map[string]string }

// canonical returns Go's spelling of a name from the wire.
func (n *nameCache) canonical(wire string) string {
	return cachedName(&n.canonicals, wire, http.CanonicalHeaderKey)
}

// lower returns the wire's spelling of a name. It returns "" if the name is not valid in
// a header.
func (n *nameCache) lower(name string) string {
	return cachedName(&n.lowers, name, func(name string) string {
		if !httpguts.ValidHeaderFieldName(name) {
			return ""
		}
		return strings.ToLower(name)
	})
}

// cachedName returns the translation of a name, and remembers it while there is room.
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
