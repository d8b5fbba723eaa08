package fill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// keepIfShared reports whether a definition must stay, because somebody else has objects of it,
// which the server would remove with the definition. In that case keepIfShared removes the
// objects of this seed and notes the definition. It does not check the groups of fill's own.
func (c *apiClient) keepIfShared(ctx context.Context, name string) (bool, error) {
	if strings.HasSuffix(name, CRDGroupSuffix) {
		return false, nil
	}
	d, err := c.readDefinition(ctx, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get definition: %w", err)
	}
	shared, err := c.hasForeignObjects(ctx, d)
	if err != nil || !shared {
		return false, err
	}
	c.note(&c.mu.keptDefinitions, name)
	return true, c.removeCustom(ctx, d)
}

// readDefinition returns the names of a definition, with a version that the server serves.
func (c *apiClient) readDefinition(ctx context.Context, name string) (Definition, error) {
	var text []byte
	err := retry(ctx, isTransientAPI, func() (err error) {
		text, err = c.rest.Get().AbsPath(crdAPI).Resource(string(KindCRD)).Name(name).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
		return err
	})
	if err != nil {
		return Definition{}, err
	}
	var d apiextv1.CustomResourceDefinition
	if err := json.Unmarshal(text, &d); err != nil {
		return Definition{}, fmt.Errorf("decode: %w", err)
	}
	names := Definition{Group: d.Spec.Group, Plural: d.Spec.Names.Plural}
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool { return v.Served })
	if i < 0 {
		return names, fmt.Errorf("%s serves no version: whether it still has other objects cannot be checked", name)
	}
	names.Version = d.Spec.Versions[i].Name
	return names, nil
}

// hasForeignObjects reports whether a definition has objects without the seed. A definition that
// was never served has no objects.
func (c *apiClient) hasForeignObjects(ctx context.Context, d Definition) (bool, error) {
	for item, err := range c.listMetadata(ctx, d.Path(""), LabelSeed+"!="+c.seed, 1) {
		if err != nil || item.Labels[LabelSeed] != c.seed {
			return err == nil, ignoreUnserved(err)
		}
	}
	return false, nil
}

// ignoreUnserved returns nil for errUnserved, and any other error as it is.
func ignoreUnserved(err error) error {
	if errors.Is(err, errUnserved) {
		return nil
	}
	return err
}

// removeCustom removes the objects of a definition that carry the seed.
func (c *apiClient) removeCustom(ctx context.Context, d Definition) error {
	objects := make(chan listedObject, listPage)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(objects)
		return ignoreUnserved(c.listSeeded(ctx, d.Path(""), objects))
	})
	group.Go(func() error {
		for obj := range objects {
			opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(obj.uid))}
			err := retry(ctx, isTransientAndNoConflict, func() error {
				return c.rest.Delete().AbsPath(d.Path(obj.namespace), obj.name).Body(&opts).Do(ctx).Error()
			})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("delete custom object %s: %w", obj.name, err)
			}
		}
		return nil
	})
	return group.Wait()
}
