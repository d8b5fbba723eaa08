package read

import (
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// listParameters are those that metav1.ListOptions read. Parameters of other
// names mean nothing to Kubernetes either.
var listParameters = map[string]bool{
	"labelSelector": true, "fieldSelector": true, "watch": true, "allowWatchBookmarks": true,
	"resourceVersion": true, "resourceVersionMatch": true, "timeoutSeconds": true, "limit": true, "continue": true,
	"sendInitialEvents": true, "shardSelector": true, "kind": true, "apiVersion": true,
}

// metaVersion is the version of option kinds in all groups.
var metaVersion = metav1.SchemeGroupVersion

// listOptions reads a LIST's or WATCH's parameters with Kubernetes' own code.
// What that refuses is passed on, for the words of the error are Kubernetes'.
// infoName is what the request's information calls its name.
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
	if o.ShardSelector != "" || len(validation.ValidateListOptions(o, watchList)) > 0 {
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

// checkName checks a name against the field selector, which it comes from unless it
// stands in a watch's path.
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

// maxTimeout is beyond what a watch is asked to last, in seconds.
const maxTimeout = 1 << 31

// isWatchOptions reports whether the parameters are those of a watch.
func (q *query) isWatchOptions() bool {
	o := &q.options
	if t := o.TimeoutSeconds; t != nil && (*t < 0 || *t > maxTimeout) {
		return false
	}
	_, err := storage.APIObjectVersioner{}.ParseResourceVersion(o.ResourceVersion)
	return err == nil && (o.Watch || q.legacyWatchPath)
}

func (q *query) getOptions(values url.Values) passReason {
	// A GET's options are read from these names alone.
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
