package fill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// overhead is by how much objects of a resource are larger in a LIST than as they are sent.
type overhead struct {
	fixed int // in every object, less the version and kind that a LIST leaves out
	first int // once in an object with padding
	piece int // with each piece of padding, besides its text
	limit int // of all padding
}

const (
	// pieceLength is that of a piece of padding.
	pieceLength = 1000
	// maxAnnotations is below the 256 KiB that Kubernetes allows.
	maxAnnotations = 250_000
	// managedLabel is what managed fields have for a label, besides its key.
	managedLabel = len(`"f:":{},`)
	// versionInList is the resource version of an object, which a dry run does not tell.
	versionInList = len(`"resourceVersion":"123456",`)
	// definitionStatus is what a server adds to a definition when it serves it.
	definitionStatus = 900
)

// size is that of an object in a LIST, if it is written as it is.
func (o overhead) size(object *placedObject) (int, error) {
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

// pieces returns the lengths of the pieces that make an object larger by so many bytes.
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

// measureOverhead has the server tell, in dry runs, what it makes of an object without
// padding, with one piece and with two.
func (p *resourcePlan) measureOverhead(ctx context.Context) (overhead, error) {
	const text = 12
	o := overhead{limit: maxObjectSize}
	if place := p.paddingPlace(); place[len(place)-1] == "annotations" {
		o.limit = maxAnnotations
	}
	var answered [3]int
	for pieces := range answered {
		object, err := p.bare(p.sizeDeal.n + 1_000_000) // one that is not written
		if err != nil {
			return o, err
		}
		if pieces == 0 {
			if o.fixed, err = o.size(object); err != nil {
				return o, err
			}
		}
		p.pad(object, []int{text, text}[:pieces], 0)
		if answered[pieces], err = p.api.dryRun(ctx, object); err != nil {
			return o, fmt.Errorf("try %s: %w", p.numbers.Resource, err)
		}
	}
	o.fixed = answered[0] - o.fixed + versionInList
	switch p.kind {
	case KindCustomObject:
	case KindCRD:
		o.fixed += definitionStatus
		fallthrough
	default:
		o.fixed -= len(`"kind":"","apiVersion":"",`) + len(p.objectKind()) + len(p.version())
	}
	o.piece = answered[2] - answered[1] - text
	o.first = answered[1] - answered[0] - text - o.piece
	return o, nil
}

func (p *resourcePlan) version() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.base, "/apis/"), "/api/")
}

func (p *resourcePlan) objectKind() string {
	content, err := p.content(0)
	if err != nil {
		return ""
	}
	kind, _ := content["kind"].(string)
	return kind
}

// dryRun returns the size of the object that a server would store.
func (c *apiClient) dryRun(ctx context.Context, object *placedObject) (int, error) {
	body, _, err := c.postJSON(ctx, object, "All")
	return len(strings.TrimSpace(string(body))), err
}

// storePlaced creates an object that is sent as JSON.
func (c *apiClient) storePlaced(ctx context.Context, object *placedObject) (Count, error) {
	if object.definition != nil && c.isForeign(object.definition.Name()) {
		return Count{Skipped: 1}, nil
	}
	_, sent, err := c.postJSON(ctx, object, "")
	switch {
	case apierrors.IsAlreadyExists(err):
		return Count{Skipped: 1}, c.checkExisting(ctx, object.kind, object.GetName())
	case apierrors.IsInvalid(err) && object.lesser != nil:
		return c.storePlaced(ctx, object.lesser())
	case apierrors.IsInvalid(err) && object.definition != nil && object.definition.Kind != "":
		c.note(&c.mu.refusedDefinitions, object.definition.Name())
		return Count{}, nil
	case err != nil:
		return Count{}, err
	}
	return Count{Done: 1, Bytes: int64(sent)}, nil
}

// postJSON creates an object, and returns it as the server has it, and how many bytes were sent.
// dryRun is that parameter.
func (c *apiClient) postJSON(ctx context.Context, object *placedObject, dryRun string) (body []byte, sent int, err error) {
	if object.definition != nil {
		if err := c.waitUntilServed(ctx, *object.definition); err != nil {
			return nil, 0, err
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, 0, fmt.Errorf("encode: %w", err)
	}
	err = retry(ctx, isTransientAPI, func() error {
		request := c.rest.Post().AbsPath(object.path).Param("fieldManager", fieldManager(object.kind)).
			SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON)
		if dryRun != "" {
			request = request.Param("dryRun", dryRun)
		}
		body, err = request.Body(text).Do(ctx).Raw()
		return err
	})
	// The client decodes no JSON, so what the server said is only in the body.
	var said metav1.Status
	if err != nil && json.Unmarshal(body, &said) == nil && said.Status == metav1.StatusFailure {
		err = &apierrors.StatusError{ErrStatus: said}
	}
	return body, len(text), err
}

// countOthers counts the objects that this seed did not make. It returns -1 if the server does
// not serve the resource.
func (c *apiClient) countOthers(ctx context.Context, p *resourcePlan) (n int, err error) {
	for _, err := range c.metadata(ctx, p.collection(""), LabelSeed+"!="+c.seed, listPage) {
		if errors.Is(err, errUnserved) {
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
