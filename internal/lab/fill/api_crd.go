package fill

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// crdTimeout bounds the wait for one definition to be served, and the wait for
	// one definition to be removed. It is long, because a server needs minutes to
	// work through thousands of definitions.
	crdTimeout      = 15 * time.Minute
	crdPollInterval = 100 * time.Millisecond
)

// storeCustom creates a definition or a custom object of a Shape. It sends JSON, because custom
// objects have no protobuf form.
func (c *apiClient) storeCustom(ctx context.Context, kind Kind, obj Object) (Count, error) {
	placed := &placedObject{Object: obj, kind: kind, path: crdAPI + "/" + string(KindCRD)}
	if kind == KindCustomObject {
		gvk := obj.GetObjectKind().GroupVersionKind()
		placed.definition = &Definition{Group: gvk.Group, Plural: plural(gvk.Kind)}
		placed.path = placed.definition.Path(obj.GetNamespace())
	}
	return c.storePlaced(ctx, placed)
}

// acceptOneMetadata is the Accept header for the metadata of one object.
const acceptOneMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// ownsDefinition reports whether a definition carries the seed. A definition that does not
// exist counts as owned: fill may create it.
func (c *apiClient) ownsDefinition(ctx context.Context, name string) (bool, error) {
	var existing metav1.PartialObjectMetadata
	err := retry(ctx, isTransientAPI, func() error {
		return c.rest.Get().AbsPath(crdAPI).Resource(string(KindCRD)).Name(name).SetHeader("Accept", acceptOneMetadata).Do(ctx).Into(&existing)
	})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get definition %s: %w", name, err)
	}
	return existing.Labels[LabelSeed] == c.seed, nil
}

// checkExisting notes a definition that exists without the seed. fill writes no objects of it:
// they would be in somebody else's resource, and --delete, which finds custom objects by their
// definitions, would leave them.
func (c *apiClient) checkExisting(ctx context.Context, kind Kind, name string) error {
	if kind != KindCRD {
		return nil
	}
	owned, err := c.ownsDefinition(ctx, name)
	if err == nil && !owned {
		c.note(&c.mu.foreignDefinitions, name)
	}
	return err
}

func (c *apiClient) isForeign(definition string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.foreignDefinitions[definition]
}

// waitUntilServed blocks until the custom objects of a definition can be listed.
// A server serves a definition some time after its creation. The result is
// remembered, so later calls for the same definition return immediately.
func (c *apiClient) waitUntilServed(ctx context.Context, d Definition) error {
	c.mu.Lock()
	served := c.mu.servedDefinitions[d]
	c.mu.Unlock()
	if served {
		return nil
	}
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := c.rest.Get().AbsPath(d.Path("")).Param("limit", "1").Do(ctx).Error()
		if apierrors.IsNotFound(err) || err != nil && isTransientAPI(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait until %s is served: %w; its conditions say what it lacks", d.Name(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.servedDefinitions == nil {
		c.mu.servedDefinitions = make(map[Definition]bool)
	}
	c.mu.servedDefinitions[d] = true
	return nil
}

// waitUntilGone blocks until no definition with the seed is left. The server
// removes the custom objects of a definition first, which takes seconds for each
// definition. Therefore crdTimeout applies to one definition at a time.
func (c *apiClient) waitUntilGone(ctx context.Context) error {
	for last := "none yet"; last != ""; {
		var first string
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			var err error
			first, err = c.firstDefinition(ctx)
			if err != nil && isTransientAPI(err) {
				return false, nil
			}
			return first != last, err
		})
		if err != nil {
			return fmt.Errorf("wait until all %s are gone: %w; the conditions of %s say what it waits for", KindCRD.noun(2), err, last)
		}
		last = first
	}
	return nil
}

// firstDefinition returns the name of the first definition with the seed that is not kept. It
// returns "" if all are gone.
func (c *apiClient) firstDefinition(ctx context.Context) (string, error) {
	c.mu.Lock()
	kept := maps.Clone(c.mu.keptDefinitions)
	c.mu.Unlock()
	var page metav1.PartialObjectMetadataList
	err := c.rest.Get().AbsPath(crdAPI).Resource(string(KindCRD)).SetHeader("Accept", acceptListMetadata).
		Param("labelSelector", LabelSeed+"="+c.seed).Param("limit", strconv.Itoa(len(kept)+1)).Do(ctx).Into(&page)
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		if name := page.Items[i].Name; !kept[name] {
			return name, nil
		}
	}
	return "", nil
}

// poll calls condition every crdPollInterval until it returns true or an error, or
// until crdTimeout has passed.
func poll(ctx context.Context, condition func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, crdTimeout, fmt.Errorf("not within %s", crdTimeout))
	defer cancel()
	ticker := time.NewTicker(crdPollInterval)
	defer ticker.Stop()
	for {
		if done, err := condition(ctx); done || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
