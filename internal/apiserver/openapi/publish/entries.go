package publish

// Entries are the parts of a document that belong to one definition: the insides of two
// JSON objects, without braces.
type Entries struct {
	Paths, Schemas []byte
	// binaryPaths are the paths in protobuf, in the place of Paths.
	binaryPaths []byte
}

// Append appends entries of the same objects, as JSON.
func (t *Entries) Append(paths, schemas []byte) {
	t.Paths = appendEntries(t.Paths, paths)
	t.Schemas = appendEntries(t.Schemas, schemas)
}

func appendEntries(dst, src []byte) []byte {
	if len(dst) > 0 && len(src) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, src...)
}
