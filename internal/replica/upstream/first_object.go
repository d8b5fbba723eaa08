package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNotPermitted says that the upstream does not let the replica ask something.
var ErrNotPermitted = errors.New("the upstream does not permit it")

// FirstObject names the first object of a resource. It is empty if there is none.
type FirstObject struct {
	Namespace, Name string
	Revision        int64
}

// Key is the object's key below that of its resource.
func (o FirstObject) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// PublishedObject names the config map that every cluster has, and that the replica may read.
func (u *Upstream) PublishedObject(ctx context.Context) (FirstObject, error) {
	published, err := u.configMaps.ConfigMaps(metav1.NamespaceSystem).Get(ctx, publishedMap, metav1.GetOptions{})
	if err != nil {
		return FirstObject{}, fmt.Errorf("read a config map that every cluster has: %w", err)
	}
	return firstObject(published.Namespace, published.Name, published.ResourceVersion)
}

func firstObject(namespace, name, revision string) (made FirstObject, err error) {
	made = FirstObject{Namespace: namespace, Name: name}
	if made.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil {
		return FirstObject{}, fmt.Errorf("read the revision of %s: %w", made.Key(), err)
	}
	return made, nil
}

// First asks the upstream for the first object of a resource in all namespaces.
func (u *Upstream) First(ctx context.Context, gr schema.GroupResource) (FirstObject, error) {
	gvr, served := u.Preferred(gr)
	if !served {
		return FirstObject{}, fmt.Errorf("the upstream does not serve %s", gr)
	}
	body, err := u.discovery.RESTClient().Get().AbsPath(CollectionPath(gvr)).Param("limit", "1").
		SetHeader("Accept", namesOnly).Do(ctx).Raw()
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return FirstObject{}, fmt.Errorf("%w: %w", ErrNotPermitted, err)
	}
	if err != nil {
		return FirstObject{}, fmt.Errorf("ask the upstream for one of %s: %w", gr, err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) == 0 {
		return FirstObject{}, err
	}
	return firstObject(list.Items[0].Namespace, list.Items[0].Name, list.Items[0].ResourceVersion)
}
