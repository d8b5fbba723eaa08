package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
	"github.com/millrace/millrace/internal/wire/encode"
)

// base is a v2 document without the custom resources that have fragments.
//
// Kubernetes' merger makes it of the local servers, of an exemplar for each Shape of custom
// resources, and of conflicting definitions. The services of the aggregation layer are part
// of it too. The exemplars are then taken out again. They show where the merger renamed
// schemas that several servers have, so that fragments can refer to the new names.
//
// A base is immutable except for mu.
type base struct {
	// key identifies what the base was made from, tag its content.
	key, tag string
	// conflicting has the names of the definitions that are in the base and have no
	// fragment.
	conflicting map[string]bool
	// incomplete says that a conflicting definition cannot be read. Such a base is not kept.
	incomplete bool
	// renamed replaces references in fragments to schemas that the merger renamed. It is
	// nil if there are none. renames identifies it, and is 0 then.
	renamed   *strings.Replacer
	renames   uint64
	templates renamedTemplates

	// json is the frame in JSON.
	json frame
	mu   struct {
		sync.Mutex
		// proto is the frame in protobuf, made when first asked for.
		proto *frame
	}
}

// baseCache keeps the newest base. A base is replaced when the services, the conflicting
// definitions, or the Shapes of the other definitions change.
type baseCache struct {
	mu struct {
		sync.Mutex
		newest *base
		// local are the names that local servers have. It is nil until they are known.
		local *occupiedNames
		// remote are the names in the next handler's document with the tag remoteTag.
		remote    *occupiedNames
		remoteTag string
	}
}

// base returns the base for a view, and makes it if the newest one is another. It holds the
// lock meanwhile, so other requests wait.
func (s *Server) base(v *view, remote *aggregatedSpec) (*base, error) {
	b := &s.bases
	b.mu.Lock()
	defer b.mu.Unlock()
	var locals []*spec.Swagger
	var err error
	if b.mu.local == nil {
		if locals, err = s.locals(); err != nil {
			return nil, err
		}
		b.mu.local = occupiedBy(locals)
	}
	if b.mu.remote == nil || b.mu.remoteTag != remote.tag {
		decoded, err := remote.decode()
		if err != nil {
			return nil, err
		}
		b.mu.remote, b.mu.remoteTag = occupiedBy(decoded), remote.tag
	}
	split := v.splitBy(b.mu.local, b.mu.remote)
	if b.mu.newest != nil && b.mu.newest.key == remote.tag+split.key {
		return b.mu.newest, nil
	}
	if locals == nil {
		if locals, err = s.locals(); err != nil {
			return nil, err
		}
	}
	remotes, err := remote.decode()
	if err != nil {
		return nil, err
	}
	made, err := s.mergeBase(locals, remotes, split)
	if err != nil {
		return nil, err
	}
	made.key = remote.tag + split.key
	if !made.incomplete {
		b.mu.newest = made
	}
	return made, nil
}

// locals builds the specs of the local servers. The caller may change them.
func (s *Server) locals() ([]*spec.Swagger, error) {
	locals := s.config.Locals()
	specs := make([]*spec.Swagger, len(locals))
	for i, local := range locals {
		var err error
		if specs[i], err = local.V2(); err != nil {
			return nil, fmt.Errorf("build OpenAPI v2 of built-in resources: %w", err)
		}
	}
	return specs, nil
}

// encode sets tag, and json to the pieces of a merged document.
func (b *base) encode(merged *spec.Swagger) error {
	plain, err := merged.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode OpenAPI v2: %w", err)
	}
	b.tag = newContentHash(string(plain)).tag()
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(plain, &parts); err != nil {
		return fmt.Errorf("cut OpenAPI v2: %w", err)
	}
	paths, schemas := parts["paths"], parts["definitions"]
	delete(parts, "paths")
	delete(parts, "definitions")
	head, err := json.Marshal(parts)
	if err != nil {
		return fmt.Errorf("encode head of OpenAPI v2: %w", err)
	}
	rest, err := publish.ObjectEntries(head)
	if err != nil {
		return err
	}
	b.json = frame{form: v2JSON}
	b.json.middle = []encode.Piece{mustPiece(`},"definitions":{`)}
	b.json.tail = []encode.Piece{mustPiece(`}}`)}
	if b.json.head, err = splitPieces([]byte("{" + rest + `,"paths":{`)); err != nil {
		return err
	}
	if b.json.paths, err = splitObject(paths); err != nil {
		return err
	}
	b.json.schemas, err = splitObject(schemas)
	return err
}

// splitObject splits the entries of a JSON object into pieces. Nil has none.
func splitObject(object []byte) ([]encode.Piece, error) {
	if object == nil {
		return nil, nil
	}
	entries, err := publish.ObjectEntries(object)
	if err != nil {
		return nil, err
	}
	return splitPieces([]byte(entries))
}

// servedVersions returns the versions of a definition that have documents.
func servedVersions(full *apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinitionVersion {
	var found []*apiextensionsv1.CustomResourceDefinitionVersion
	for i := range full.Spec.Versions {
		if full.Spec.Versions[i].Served {
			found = append(found, &full.Spec.Versions[i])
		}
	}
	return found
}

// renamedTemplates are the templates of a base, with references to the names that the
// merger gave.
type renamedTemplates struct {
	mu struct {
		sync.Mutex
		byShape map[publish.Shape]*publish.PathTemplate
	}
}

// template returns the template of v2 fragments on this base.
func (b *base) template(all *publish.PathTemplates, s publish.Shape) (*publish.PathTemplate, error) {
	made, err := all.V2(s)
	if err != nil || b.renamed == nil {
		return made, err
	}
	b.templates.mu.Lock()
	defer b.templates.mu.Unlock()
	if found := b.templates.mu.byShape[s]; found != nil {
		return found, nil
	}
	if b.templates.mu.byShape == nil {
		b.templates.mu.byShape = map[publish.Shape]*publish.PathTemplate{}
	}
	b.templates.mu.byShape[s] = made.Rename(b.renamed)
	return b.templates.mu.byShape[s], nil
}
