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

// keepsDefinition reports whether a definition has to stay, because somebody else has objects
// of it: the server would remove them with it. Then it removes those of this seed itself, and
// notes the definition. Groups of fill's own are not looked at.
func (c *apiClient) keepsDefinition(ctx context.Context, name string) (bool, error) {
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
	occupied, err := c.hasOthers(ctx, d)
	if err != nil || !occupied {
		return false, err
	}
	c.note(&c.mu.keptDefinitions, name)
	return true, c.removeCustom(ctx, d)
}

// readDefinition returns the names of a definition, with a version that is served.
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
		return names, fmt.Errorf("%s serves no version: who has objects of it cannot be seen", name)
	}
	names.Version = d.Spec.Versions[i].Name
	return names, nil
}

// hasOthers reports whether there are objects of a definition without the seed. Of one that
// was never served there are none.
func (c *apiClient) hasOthers(ctx context.Context, d Definition) (bool, error) {
	for item, err := range c.metadata(ctx, d.Path(""), LabelSeed+"!="+c.seed, 1) {
		if err != nil || item.Labels[LabelSeed] != c.seed {
			return err == nil, ignoreUnserved(err)
		}
	}
	return false, nil
}

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
		return ignoreUnserved(c.list(ctx, d.Path(""), objects))
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
