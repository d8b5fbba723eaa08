// The modules whose custom resource definitions test/crds installs. They are a
// module of their own so that the program's dependencies stay what they are:
// nothing imports them, only their files are read. Don't tidy: there is no code
// here that would keep them.
module github.com/millrace/millrace/test/crds/definitions

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/crossplane/crossplane/v2 v2.0.2
	github.com/external-secrets/external-secrets v1.3.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
	istio.io/api v1.31.1
	sigs.k8s.io/gateway-api v1.6.0
)
