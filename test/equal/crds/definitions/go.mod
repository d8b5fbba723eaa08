// This module requires the modules whose custom resource definitions test/equal/crds installs. It
// is separate from the program's module, so that it adds no dependencies to the program.
// Nothing imports the modules; tests read their files. "go mod tidy" would remove them.
module github.com/millrace/millrace/test/equal/crds/definitions

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/crossplane/crossplane/v2 v2.0.2
	github.com/external-secrets/external-secrets v1.3.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
	istio.io/api v1.31.1
	sigs.k8s.io/gateway-api v1.6.0
)
