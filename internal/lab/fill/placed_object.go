package fill

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// placedObject is an object with the API path at which it is created, as JSON.
type placedObject struct {
	Object
	kind Kind
	path string // path of the collection
	// definition is the custom object's definition, which must be served before the object is
	// sent. It is nil for other objects.
	definition *Definition
	// fallback returns an object to try if the server finds this one invalid. It may be nil.
	fallback func() *placedObject
}

// MarshalJSON implements json.Marshaler.
func (o *placedObject) MarshalJSON() ([]byte, error) { return json.Marshal(o.Object) }

// asMap returns the content of an object, which is shared. It panics for a typed object.
func (o *placedObject) asMap() map[string]any {
	return o.Object.(*unstructured.Unstructured).Object
}

// storePlaced creates an object. If the server finds it invalid, storePlaced tries its
// fallback. Definitions that refuse the fallback, too, are noted.
func (c *apiClient) storePlaced(ctx context.Context, object *placedObject) (Count, error) {
	if object.definition != nil && c.isForeign(object.definition.Name()) {
		return Count{Skipped: 1}, nil
	}
	_, sent, err := c.postJSON(ctx, object, "")
	switch {
	case apierrors.IsAlreadyExists(err):
		return Count{Skipped: 1}, c.checkExisting(ctx, object.kind, object.GetName())
	case apierrors.IsInvalid(err) && object.fallback != nil:
		return c.storePlaced(ctx, object.fallback())
	case apierrors.IsInvalid(err) && object.definition != nil && object.definition.Kind != "":
		c.note(&c.mu.refusedDefinitions, object.definition.Name())
		return Count{}, nil
	case err != nil:
		return Count{}, err
	}
	return Count{Done: 1, Bytes: int64(sent)}, nil
}

// postJSON creates an object. It returns the server's answer, and the number of bytes sent.
// dryRun is the query parameter of that name, or "". An object of a definition waits until the
// server serves it.
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
	// The client decodes no JSON, so the server's message is in the body alone.
	var status metav1.Status
	if err != nil && json.Unmarshal(body, &status) == nil && status.Status == metav1.StatusFailure {
		err = &apierrors.StatusError{ErrStatus: status}
	}
	return body, len(text), err
}

// dryRun returns the size in bytes, as JSON, of the object that the server would store.
func (c *apiClient) dryRun(ctx context.Context, object *placedObject) (int, error) {
	body, _, err := c.postJSON(ctx, object, "All")
	return len(strings.TrimSpace(string(body))), err
}
