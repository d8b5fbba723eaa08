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
	"k8s.io/apimachinery/pkg/types"
)

// ErrForbidden says that the upstream forbids the replica a read.
var ErrForbidden = errors.New("the upstream forbids this read: let the user of --kubeconfig list the resource")

// ObjectVersion names an object and its revision. It is empty if there is no object.
type ObjectVersion struct {
	Namespace, Name string
	// UID tells the object from that of another cluster with the same name and revision. It is
	// empty if the object has none.
	UID      types.UID
	Revision int64
}

// Key returns the object's key, without its resource's prefix.
func (o ObjectVersion) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// AuthenticationConfigMap reads the version of kube-system/extension-apiserver-authentication,
// which every cluster has.
func (u *Upstream) AuthenticationConfigMap(ctx context.Context) (ObjectVersion, error) {
	published, err := u.configMaps.ConfigMaps(metav1.NamespaceSystem).Get(ctx, publishedMap, metav1.GetOptions{})
	if err != nil {
		return ObjectVersion{}, fmt.Errorf("read config map %s/%s: %w", metav1.NamespaceSystem, publishedMap, err)
	}
	return newObjectVersion(published.ObjectMeta)
}

func newObjectVersion(meta metav1.ObjectMeta) (o ObjectVersion, err error) {
	o = ObjectVersion{Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID}
	if o.Revision, err = strconv.ParseInt(meta.ResourceVersion, 10, 64); err != nil {
		return ObjectVersion{}, fmt.Errorf("read the revision of %s: %w", o.Key(), err)
	}
	return o, nil
}

// First asks the upstream for the first object of a resource in all namespaces. The result is
// empty if there is none.
func (u *Upstream) First(ctx context.Context, gr schema.GroupResource) (ObjectVersion, error) {
	gvr, served := u.PreferredVersion(gr)
	if !served {
		return ObjectVersion{}, fmt.Errorf("the upstream does not serve %s", gr)
	}
	body, err := u.discovery.RESTClient().Get().AbsPath(CollectionPath(gvr)).Param("limit", "1").
		SetHeader("Accept", metadataOnly).Do(ctx).Raw()
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return ObjectVersion{}, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if err != nil {
		return ObjectVersion{}, fmt.Errorf("list the first object of %s: %w", gr, err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &list); err != nil {
		return ObjectVersion{}, fmt.Errorf("decode the first object of %s: %w", gr, err)
	}
	if len(list.Items) == 0 {
		return ObjectVersion{}, nil
	}
	return newObjectVersion(list.Items[0].ObjectMeta)
}
