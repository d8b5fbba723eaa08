package fill

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// overhead is the number of bytes by which an object is larger in a LIST than as it is sent.
type overhead struct {
	fixed int // for every object, without the apiVersion and kind that a LIST leaves out
	first int // once for an object with padding
	piece int // for each piece of padding, besides its text
	limit int // largest padding of an object, with its overhead
}

// Lengths in bytes.
const (
	pieceLength = 1000 // length of a piece of padding, at most
	// maxAnnotations is below the 256 KiB that Kubernetes allows.
	maxAnnotations = 250_000
	// managedLabel is the length of a label's entry in managed fields, without its key.
	managedLabel = len(`"f:":{},`)
	// versionInList is the length of an object's resource version. The answer to a dry run
	// does not have one.
	versionInList = len(`"resourceVersion":"123456",`)
	// definitionStatus is the length of the status that a server adds to a definition.
	definitionStatus = 900
)

// listedSize returns the size in a LIST of an object that is written as it is, in bytes.
func (o overhead) listedSize(object *placedObject) (int, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	size := len(text) + o.fixed
	for key := range object.GetLabels() {
		size += len(key) + managedLabel
	}
	return size, nil
}

// pieces returns the lengths of the pieces that make an object larger by missing bytes, as far
// as limit permits.
func (o overhead) pieces(missing int) []int {
	missing = min(missing, o.limit) - o.first
	if missing <= o.piece {
		return nil
	}
	n := (missing + pieceLength + o.piece - 1) / (pieceLength + o.piece)
	text := missing - n*o.piece
	lengths := make([]int, 0, n)
	for i := range n {
		if length := text*(i+1)/n - text*i/n; length > 0 {
			lengths = append(lengths, length)
		}
	}
	return lengths
}

// measureOverhead measures in three dry runs the size of an object without padding, with one
// piece and with two pieces.
func (p *resourcePlan) measureOverhead(ctx context.Context) (overhead, error) {
	const text = 12
	o := overhead{limit: maxObjectSize}
	if place := p.paddingPlace(); place[len(place)-1] == "annotations" {
		o.limit = maxAnnotations
	}
	var sizes [3]int // of the server's answers, by the number of pieces
	for pieces := range sizes {
		object, err := p.bare(p.sizeOrder.n + 1_000_000) // one that is not written
		if err != nil {
			return o, err
		}
		if pieces == 0 {
			if o.fixed, err = o.listedSize(object); err != nil {
				return o, err
			}
		}
		p.pad(object, []int{text, text}[:pieces], 0)
		if sizes[pieces], err = p.api.dryRun(ctx, object); err != nil {
			return o, fmt.Errorf("try %s: %w", p.numbers.Resource, err)
		}
	}
	o.fixed = sizes[0] - o.fixed + versionInList
	switch p.kind {
	case KindCustomObject:
	case KindCRD:
		o.fixed += definitionStatus
		fallthrough
	default:
		o.fixed -= len(`"kind":"","apiVersion":"",`) + len(p.objectKind()) + len(p.version())
	}
	o.piece = sizes[2] - sizes[1] - text
	o.first = sizes[1] - sizes[0] - text - o.piece
	return o, nil
}

// version returns the apiVersion of objects.
func (p *resourcePlan) version() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.base, "/apis/"), "/api/")
}

// objectKind returns the field kind of objects. It is empty if no object can be made.
func (p *resourcePlan) objectKind() string {
	content, err := p.content(0)
	if err != nil {
		return ""
	}
	kind, _ := content["kind"].(string)
	return kind
}
