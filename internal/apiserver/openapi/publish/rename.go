package publish

import "strings"

// Rename returns a template whose references to shared schemas and parameters are
// replaced. Kubernetes renames those where several servers have different ones of the
// same name.
func (t *PathTemplate) Rename(r *strings.Replacer) *PathTemplate {
	renamed := *t
	renamed.proto = new(lazyProtoTemplate)
	renamed.paths, renamed.list = t.paths.rename(r), t.list.rename(r)
	renamed.builtin.encodedRoot = renameProperties(t.builtin.encodedRoot, r)
	renamed.builtin.encodedEmbedded = renameProperties(t.builtin.encodedEmbedded, r)
	return &renamed
}

// rename replaces within the parts one by one: no reference to a shared schema contains
// the name of a resource.
func (t textTemplate) rename(r *strings.Replacer) textTemplate {
	renamed := make(textTemplate, len(t))
	for i, p := range t {
		renamed[i] = templatePart{r.Replace(p.text), p.name}
	}
	return renamed
}

func renameProperties(all []encodedProperty, r *strings.Replacer) []encodedProperty {
	renamed := make([]encodedProperty, len(all))
	for i, n := range all {
		renamed[i] = encodedProperty{n.name, r.Replace(n.schema)}
	}
	return renamed
}
