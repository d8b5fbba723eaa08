package analyze

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"

	"github.com/millrace/millrace/internal/tool/useragent"
)

const serviceAccountPrefix = "system:serviceaccount:"

// flowSchema returns the YAML of a FlowSchema and a PriorityLevelConfiguration. They give the
// client's reads of the resource a small share of the server of their own. It returns "" for users
// of Kubernetes' own components and for Millrace's replicas, which must not be held back. It also
// returns "" for hashed names.
func flowSchema(f *Finding) string {
	subject := userSubject(f.User)
	if subject == "" || isReplica(f.UserAgent) {
		return ""
	}
	resource, subresource, _ := strings.Cut(f.Resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	if subresource != "" {
		resource += "/" + subresource
	}
	return fmt.Sprintf(flowSchemaTemplate, objectName(f), subject, group, resource)
}

// flowSchemaTemplate sends requests to a priority level of five shares, about a fortieth of the
// shares of Kubernetes' own levels. Each user of the level has queues of its own.
const flowSchemaTemplate = `apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata:
  name: %[1]s
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 5
    lendablePercent: 0
    borrowingLimitPercent: 0
    limitResponse:
      type: Queue
      queuing:
        queues: 16
        handSize: 2
        queueLengthLimit: 50
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  name: %[1]s
spec:
  matchingPrecedence: 500
  priorityLevelConfiguration:
    name: %[1]s
  distinguisherMethod:
    type: ByUser
  rules:
  - subjects:
%[2]s
    resourceRules:
    - verbs: ["get", "list", "watch"]
      apiGroups: [%[3]q]
      resources: [%[4]q]
      namespaces: ["*"]
      clusterScope: true
`

// userSubject returns the YAML of a subject for a user, "" for a user that must not be held back.
func userSubject(user string) string {
	if account, ok := strings.CutPrefix(user, serviceAccountPrefix); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return fmt.Sprintf("    - kind: ServiceAccount\n      serviceAccount:\n        namespace: %q\n        name: %q", namespace, name)
	}
	if user == "" || isComponent(user) || strings.HasPrefix(user, hashedUserPrefix) {
		return ""
	}
	return fmt.Sprintf("    - kind: User\n      user:\n        name: %q", user)
}

// isComponent reports whether a user is one of Kubernetes' own components.
func isComponent(user string) bool {
	return strings.HasPrefix(user, "system:") && !strings.HasPrefix(user, serviceAccountPrefix)
}

// isReplica reports whether a program is a replica of Millrace. A replica's watches of a few
// seconds prove that its cache is fresh: longer watches would not.
func isReplica(name string) bool { return strings.HasPrefix(name, useragent.ReplicaProgram) }

// notInNames matches text that names of objects must not have.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// objectName returns a name for the objects, derived from the client and the resource. A hash in it
// keeps names apart that would otherwise be the same.
func objectName(f *Finding) string {
	user := strings.TrimPrefix(f.User, serviceAccountPrefix)
	words := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(user+"-"+f.Resource), "-"), "-")
	words = strings.Trim(words[:min(len(words), 40)], "-")
	sum := fnv.New32a()
	fmt.Fprint(sum, f.User, "\x00", f.Resource)
	return fmt.Sprintf("analyze-%s-%08x", words, sum.Sum32())
}
