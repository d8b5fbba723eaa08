package h2

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxNames bounds what a connection remembers of names in each direction.
const maxNames = 64

// names remembers how header names are written: canonically in Go, in lower case
// on the wire.
type names struct{ canonicals, lowers map[string]string }

func (n *names) canonical(wire string) string {
	return remember(&n.canonicals, wire, http.CanonicalHeaderKey)
}

// lower returns nothing for what is no header name.
func (n *names) lower(name string) string {
	return remember(&n.lowers, name, func(name string) string {
		if !httpguts.ValidHeaderFieldName(name) {
			return ""
		}
		return strings.ToLower(name)
	})
}

func remember(known *map[string]string, name string, translate func(string) string) string {
	if t, ok := (*known)[name]; ok {
		return t
	}
	t := translate(name)
	if len(*known) < maxNames && len(name) <= maxNames {
		if *known == nil {
			*known = make(map[string]string)
		}
		(*known)[strings.Clone(name)] = t
	}
	return t
}
