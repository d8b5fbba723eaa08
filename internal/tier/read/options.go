package read

import (
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/sharding"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/millrace/millrace/internal/wire/entry"
)

// listParameters are the parameters of metav1.ListOptions. Kubernetes ignores parameters of
// other names too.
//
// Upstream: k8s.io/apimachinery/pkg/apis/meta/v1.ListOptions; compare at each upgrade.
var listParameters = map[string]bool{
	"labelSelector": true, "fieldSelector": true, "watch": true, "allowWatchBookmarks": true,
	"resourceVersion": true, "resourceVersionMatch": true, "timeoutSeconds": true, "limit": true, "continue": true,
	"sendInitialEvents": true, "shardSelector": true, "kind": true, "apiVersion": true,
}

// metaVersion is the version of option kinds in all groups.
var metaVersion = metav1.SchemeGroupVersion

// listOptions parses the parameters of a LIST or WATCH with Kubernetes' own code. If that
// code refuses them the request is passed on, so that the error has Kubernetes' words.
// infoName is the name in the request's RequestInfo.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.listOpts; compare at each upgrade.
func (q *query) listOptions(values url.Values, infoName string) passReason {
	known := q.isWatch
	for name := range values {
		known = known || listParameters[name]
	}
	if !known {
		return ""
	}
	o := &q.options
	if err := internalversionscheme.ParameterCodec.DecodeParameters(values, metaVersion, o); err != nil {
		return passedParameter
	}
	watchList := utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
	internalversion.SetListOptionsDefaults(o, watchList)
	if len(validation.ValidateListOptions(o, watchList)) > 0 || !q.parseShard() {
		return passedParameter
	}
	if q.isWatch && !q.isWatchOptions() || !q.isWatch && (o.Watch || o.SendInitialEvents != nil) {
		return passedParameter
	}
	if o.FieldSelector != nil {
		var err error
		o.FieldSelector, err = o.FieldSelector.Transform(func(label, value string) (string, string, error) {
			return q.route.cfg.Convertor.ConvertFieldLabel(q.route.cfg.Kind, label, value)
		})
		if err != nil {
			return passedParameter
		}
	}
	return q.checkName(infoName)
}

// parseShard parses the shard selector, if the request has one and shards are served. It
// returns false if Kubernetes must answer, which refuses what it cannot parse.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.Store.ListPredicate; compare at each upgrade.
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.Store.Watch; compare at each upgrade.
func (q *query) parseShard() bool {
	if q.options.ShardSelector == "" || !utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		return true
	}
	var err error
	if q.shardSelector, err = sharding.Parse(q.options.ShardSelector); err != nil {
		return false
	}
	q.shard, err = entry.NewShard(q.shardSelector)
	return err == nil
}

// checkName checks the name in the RequestInfo against the field selector. RequestInfo has the
// name from that selector, or else from the path of a watch. In the latter case checkName sets
// the selector if there is none.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.listOpts; compare at each upgrade.
func (q *query) checkName(name string) passReason {
	o := &q.options
	if name == "" {
		return ""
	}
	if q.legacyWatchPath && (o.FieldSelector == nil || o.FieldSelector.Empty()) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name)
		return ""
	}
	if o.FieldSelector == nil {
		return passedParameter
	}
	if selected, ok := o.FieldSelector.RequiresExactMatch("metadata.name"); !ok || selected != name {
		return passedParameter
	}
	return ""
}

// maxTimeout is the longest time of a watch in seconds. Requests beyond it are passed on.
const maxTimeout = 1 << 31

// isWatchOptions reports whether the tier can serve a watch with the parameters.
func (q *query) isWatchOptions() bool {
	o := &q.options
	if t := o.TimeoutSeconds; t != nil && (*t < 0 || *t > maxTimeout) {
		return false
	}
	_, err := storage.APIObjectVersioner{}.ParseResourceVersion(o.ResourceVersion)
	return err == nil && (o.Watch || q.legacyWatchPath)
}

// getOptions parses the parameters of a GET. It leaves those to Kubernetes that change more than
// the resource version.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.GetResource; compare at each upgrade.
func (q *query) getOptions(values url.Values) passReason {
	for name := range values {
		if name == "kind" || name == "apiVersion" || name == "export" {
			return passedParameter
		}
	}
	versions := values["resourceVersion"]
	if len(versions) > 1 {
		return passedParameter
	}
	if len(versions) == 1 {
		q.resourceVersion = versions[0]
	}
	return ""
}
