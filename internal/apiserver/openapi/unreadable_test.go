package openapi_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// brokenCatalog cannot read one definition, whose row it has.
type brokenCatalog struct {
	*catalog
	name string
}

func (c *brokenCatalog) FullOf(d *crd.Definition) (*definition, error) {
	if d.Name == c.name {
		return nil, errors.New("its schema has a type that is none")
	}
	return c.catalog.FullOf(d)
}

func (c *brokenCatalog) StoredOf(d *crd.Definition, use func(stored []byte) error) error {
	if d.Name == c.name {
		return errors.New("its schema has a type that is none")
	}
	return c.catalog.StoredOf(d, use)
}

// TestUnreadableDefinition has one definition that cannot be decoded. The documents leave it
// out, and have all others. When it can be read again, it is back.
func TestUnreadableDefinition(t *testing.T) {
	definitions := corpus(t)
	broken := &brokenCatalog{newCatalog(definitions...), ""}
	var odd, other *crd.Definition
	for _, d := range broken.All() {
		switch {
		case !d.Established || len(d.Versions) == 0 || !d.Versions[0].Served:
		case odd == nil:
			odd = d
		case other == nil && d.Group != odd.Group:
			other = d
		}
	}
	h := newServer(t, broken, aggregator()).Wrap(newUpstream(t, nil))
	for _, c := range []struct {
		name string
		has  bool
	}{{odd.Name, false}, {"", true}} {
		broken.name = c.name
		w := get(h, "/openapi/v2")
		for d, want := range map[*crd.Definition]bool{odd: c.has, other: true} {
			if has := hasPath(w.Body.String(), d); w.Code != http.StatusOK || has != want {
				t.Errorf("v2 answers %d, and has %s: %v, want %v", w.Code, d.Name, has, want)
			}
			path := "/openapi/v3/apis/" + d.Group + "/" + d.Versions[0].Name
			w := get(h, path)
			if has := hasPath(w.Body.String(), d); w.Code != http.StatusOK || has != want {
				t.Errorf("%s answers %d, and has %s: %v, want %v", path, w.Code, d.Name, has, want)
			}
		}
	}
}

// TestUnreadableConflictingDefinition has a definition that cannot be decoded, and whose kind
// another one has, too.
func TestUnreadableConflictingDefinition(t *testing.T) {
	all := corpus(t)
	twin := all[0].DeepCopy()
	twin.Name, twin.Spec.Names.Plural, twin.UID = "twins."+twin.Spec.Group, "twins", "twin"
	broken := &brokenCatalog{newCatalog(append(all, twin)...), twin.Name}
	h := newServer(t, broken, aggregator()).Wrap(newUpstream(t, nil))
	rows := broken.All()
	row := rows[slices.IndexFunc(rows, func(d *crd.Definition) bool { return d.Name == twin.Name })]
	for _, name := range []string{twin.Name, ""} {
		broken.name = name
		w := get(h, "/openapi/v2")
		if has := hasPath(w.Body.String(), row); w.Code != http.StatusOK || has != (name == "") {
			t.Errorf("v2 answers %d, and has %s: %v", w.Code, twin.Name, has)
		}
	}
}

// hasPath reports whether a document has the path of a definition's objects.
func hasPath(document string, d *crd.Definition) bool {
	root := `"/apis/` + d.Group + "/" + d.Versions[0].Name + "/"
	return strings.Contains(document, root+d.Wanted.Plural+`"`) || strings.Contains(document, root+"namespaces/{namespace}/"+d.Wanted.Plural+`"`)
}
