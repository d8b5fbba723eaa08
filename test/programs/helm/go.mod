// The program helm, which TestThroughReplica of package programs runs. It is a module of
// its own so that the program's dependencies stay what they are.
module github.com/millrace/millrace/test/programs/helm

go 1.26.0

tool helm.sh/helm/v4/cmd/helm

require helm.sh/helm/v4 v4.3.1
