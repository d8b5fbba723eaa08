package storedvalues

import (
	"fmt"
	"strings"
)

// kind is a resource with one object that stays as it is, beside which odd values are written.
type kind struct {
	// list is the path of the resource, or of its objects in the namespace.
	list string
	// prefix begins the keys of the objects in etcd.
	prefix string
	// object is the object that stays, as JSON for POST. Its name is steadyName, or the one in
	// name.
	object string
	name   string
	// blocksStart says that a server waits at its start until it has read all objects of the
	// resource, here and in Kubernetes: an odd one keeps it from being ready.
	blocksStart bool
}

// steadyName is the name of the objects that stay, and oddName of those with odd values.
const (
	steadyName = "steady"
	oddName    = "odd"
	namespace  = "values"
	group      = "odd.example"
)

// nameOf returns the name of the steady object.
func (k *kind) nameOf() string {
	if k.name != "" {
		return k.name
	}
	return steadyName
}

// oddNameOf returns the name under which odd values are written.
func (k *kind) oddNameOf() string {
	if k.name == "" {
		return oddName
	}
	return strings.Replace(k.name, steadyName, oddName, 1)
}

// path returns the path of an object.
func (k *kind) path(name string) string { return k.list + "/" + name }

// key returns the key of an object.
func (k *kind) key(name string) string { return k.prefix + name }

// isDefinitions reports whether the kind is that of definitions.
func (k *kind) isDefinitions() bool { return strings.HasSuffix(k.list, "/customresourcedefinitions") }

func (k *kind) String() string { return k.list }

// fill returns a text with $N replaced by the name of the steady object.
func (k *kind) fill() string {
	return strings.NewReplacer("$N", k.nameOf(), "$G", group, "$NS", namespace).Replace(k.object)
}

// kinds are all resources that odd values are written to.
func kinds() []*kind {
	namespaced := func(root, resource, stored, object string) *kind {
		return &kind{
			list:   fmt.Sprintf("%s/namespaces/%s/%s", root, namespace, resource),
			prefix: fmt.Sprintf("/registry/%s/%s/", stored, namespace), object: object,
		}
	}
	cluster := func(root, resource, stored, object string) *kind {
		return &kind{list: root + "/" + resource, prefix: "/registry/" + stored + "/", object: object}
	}
	const admission, rbac, flow = "/apis/admissionregistration.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1", "/apis/flowcontrol.apiserver.k8s.io/v1"
	all := []*kind{
		namespaced("/api/v1", "configmaps", "configmaps", `{"metadata":{"name":"$N","labels":{"a":"b"}},"data":{"k":"v"}}`),
		namespaced("/api/v1", "pods", "pods", `{"metadata":{"name":"$N"},"spec":{"containers":[{"name":"c","image":"i"}]}}`),
		namespaced("/api/v1", "services", "services/specs", `{"metadata":{"name":"$N"},"spec":{"type":"ExternalName","externalName":"a.example"}}`),
		namespaced("/apis/apps/v1", "deployments", "deployments", `{"metadata":{"name":"$N"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`),
		namespaced("/apis/"+group+"/v1", "things", group+"/things", `{"apiVersion":"$G/v1","kind":"Thing","metadata":{"name":"$N","labels":{"a":"b"}},"spec":{"size":1}}`),
		cluster("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions", definitionText),
		cluster("/apis/apiregistration.k8s.io/v1", "apiservices", "apiregistration.k8s.io/apiservices", `{"metadata":{"name":"$N"},"spec":{"group":"remote.example","version":"`+steadyName+`","groupPriorityMinimum":10,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"name":"none","namespace":"$NS"}}}`),
		namespaced(rbac, "roles", "roles", `{"metadata":{"name":"$N"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`),
		cluster(rbac, "clusterroles", "clusterroles", `{"metadata":{"name":"$N"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`),
		cluster(rbac, "clusterrolebindings", "clusterrolebindings", `{"metadata":{"name":"$N"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"steady"},"subjects":[{"kind":"User","name":"u","apiGroup":"rbac.authorization.k8s.io"}]}`),
		cluster(admission, "validatingwebhookconfigurations", "validatingwebhookconfigurations", webhooks),
		cluster(admission, "mutatingwebhookconfigurations", "mutatingwebhookconfigurations", webhooks),
		cluster(admission, "validatingadmissionpolicies", "validatingadmissionpolicies", `{"metadata":{"name":"$N"},"spec":{"failurePolicy":"Ignore","matchConstraints":{"resourceRules":[{"apiGroups":["none.example"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nothings"]}]},"validations":[{"expression":"true"}]}}`),
		cluster(admission, "validatingadmissionpolicybindings", "validatingadmissionpolicybindings", `{"metadata":{"name":"$N"},"spec":{"policyName":"steady","validationActions":["Warn"]}}`),
		cluster("/apis/scheduling.k8s.io/v1", "priorityclasses", "priorityclasses", `{"metadata":{"name":"$N"},"value":7}`),
		cluster(flow, "flowschemas", "flowschemas", `{"metadata":{"name":"$N"},"spec":{"matchingPrecedence":9000,"priorityLevelConfiguration":{"name":"catch-all"},"rules":[{"subjects":[{"kind":"User","user":{"name":"nobody-at-all"}}],"nonResourceRules":[{"nonResourceURLs":["/nothing"],"verbs":["get"]}]}]}}`),
		cluster(flow, "prioritylevelconfigurations", "prioritylevelconfigurations", `{"metadata":{"name":"$N"},"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject"}}}}`),
	}
	for _, k := range all {
		switch {
		case k.isDefinitions():
			k.name = steadyName + "s." + group
		case strings.HasSuffix(k.list, "/apiservices"):
			k.name = steadyName + ".remote.example"
		}
		k.blocksStart = strings.HasSuffix(k.list, "/services") || strings.HasPrefix(k.list, admission)
	}
	return all
}

const webhooks = `{"metadata":{"name":"$N"},"webhooks":[{"name":"none.odd.example","failurePolicy":"Ignore","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[{"apiGroups":["none.example"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nothings"]}]}]}`

// definitionText defines a resource that is named after the definition.
const definitionText = `{"metadata":{"name":"$N"},"spec":{"group":"$G","scope":"Namespaced","names":{"plural":"` + steadyName + `s","singular":"` + steadyName + `","kind":"Steady","listKind":"SteadyList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`

// customDefinition defines the custom resources of kinds.
const customDefinition = `{"metadata":{"name":"things.` + group + `"},"spec":{"group":"` + group + `","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`
