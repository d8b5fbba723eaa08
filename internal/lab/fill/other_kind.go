package fill

import (
	"fmt"
	"slices"
	"strings"
)

// otherKind is a built-in resource that only a run with a profile writes. Its objects are the
// least that Kubernetes accepts, and do nothing where no controller runs.
type otherKind struct {
	kind       Kind
	api        string // API path of group and version
	objectKind string // the field kind of objects, such as DaemonSet
	namespaced bool
	// body has the object's other fields as JSON, without metadata. %[1]d is the object's number.
	body string
}

const (
	bodyTemplate = `{"metadata":{"labels":{"fill":"%[1]d"}},"spec":{"containers":[{"name":"app","image":"registry.example.com/app:1"}]}}`
	bodyJob      = `{"metadata":{"labels":{"fill":"%[1]d"}},"spec":{"restartPolicy":"Never","containers":[{"name":"app","image":"registry.example.com/app:1"}]}}`
	bodySelector = `"selector":{"matchLabels":{"fill":"%[1]d"}},"template":` + bodyTemplate
)

// otherKinds returns the table. It leaves out resources that would change what the server
// does: webhooks, API services, flow schemas, priority levels and certificate requests.
func otherKinds() []otherKind {
	const (
		apps       = "/apis/apps/v1"
		batch      = "/apis/batch/v1"
		core       = "/api/v1"
		rbac       = "/apis/rbac.authorization.k8s.io/v1"
		storage    = "/apis/storage.k8s.io/v1"
		networking = "/apis/networking.k8s.io/v1"
	)
	return []otherKind{
		{"daemonsets", apps, "DaemonSet", true, `"spec":{` + bodySelector + `}`},
		{"statefulsets", apps, "StatefulSet", true, `"spec":{"replicas":0,"serviceName":"fill",` + bodySelector + `}`},
		{"controllerrevisions", apps, "ControllerRevision", true, `"revision":1,"data":{}`},
		{"jobs", batch, "Job", true, `"spec":{"suspend":true,"template":` + bodyJob + `}`},
		{"cronjobs", batch, "CronJob", true, `"spec":{"suspend":true,"schedule":"0 3 * * *","jobTemplate":{"spec":{"template":` + bodyJob + `}}}`},
		{"replicationcontrollers", core, "ReplicationController", true,
			`"spec":{"replicas":0,"selector":{"fill":"%[1]d"},"template":` + bodyTemplate + `}`},
		{"podtemplates", core, "PodTemplate", true, `"template":` + bodyTemplate},
		{"endpoints", core, "Endpoints", true, `"subsets":[]`},
		{"limitranges", core, "LimitRange", true, `"spec":{"limits":[]}`},
		{"resourcequotas", core, "ResourceQuota", true, `"spec":{}`},
		{"persistentvolumeclaims", core, "PersistentVolumeClaim", true, `"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","volumeName":"fill-%[1]d","resources":{"requests":{"storage":"1Gi"}}}`},
		{"persistentvolumes", core, "PersistentVolume", false, `"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"persistentVolumeReclaimPolicy":"Retain","csi":{"driver":"fill.millrace.dev","volumeHandle":"fill-%[1]d"}}`},
		{"storageclasses", storage, "StorageClass", false, `"provisioner":"fill.millrace.dev"`},
		{"csidrivers", storage, "CSIDriver", false, `"spec":{}`},
		{"volumeattachments", storage, "VolumeAttachment", false,
			`"spec":{"attacher":"fill.millrace.dev","nodeName":"fill","source":{"persistentVolumeName":"fill-%[1]d"}}`},
		{"priorityclasses", "/apis/scheduling.k8s.io/v1", "PriorityClass", false, `"value":0`},
		{"runtimeclasses", "/apis/node.k8s.io/v1", "RuntimeClass", false, `"handler":"fill"`},
		{"roles", rbac, "Role", true, `"rules":[]`},
		{"clusterroles", rbac, "ClusterRole", false, `"rules":[]`},
		{"rolebindings", rbac, "RoleBinding", true, `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"fill-none"}`},
		{"clusterrolebindings", rbac, "ClusterRoleBinding", false,
			`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"fill-none"}`},
		{"ingresses", networking, "Ingress", true, `"spec":{"ingressClassName":"fill","defaultBackend":{"service":{"name":"fill","port":{"number":80}}}}`},
		{"ingressclasses", networking, "IngressClass", false, `"spec":{"controller":"fill.millrace.dev/none"}`},
		{"networkpolicies", networking, "NetworkPolicy", true, `"spec":{"podSelector":{"matchLabels":{"fill":"%[1]d"}}}`},
		{"poddisruptionbudgets", "/apis/policy/v1", "PodDisruptionBudget", true,
			`"spec":{"minAvailable":0,"selector":{"matchLabels":{"fill":"%[1]d"}}}`},
		{"horizontalpodautoscalers", "/apis/autoscaling/v2", "HorizontalPodAutoscaler", true,
			`"spec":{"maxReplicas":1,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"fill-%[1]d"}}`},
	}
}

// findOtherKind returns a kind of the table, and false if the table does not have it.
func findOtherKind(kind Kind) (otherKind, bool) {
	all := otherKinds()
	i := slices.IndexFunc(all, func(o otherKind) bool { return o.kind == kind })
	if i < 0 {
		return otherKind{}, false
	}
	return all[i], true
}

// objectJSON returns object i without its metadata.
func (o otherKind) objectJSON(i int) string {
	body := o.body
	if strings.Contains(body, "%") {
		body = fmt.Sprintf(body, i)
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s}`, strings.TrimPrefix(strings.TrimPrefix(o.api, "/apis/"), "/api/"), o.objectKind, body)
}
