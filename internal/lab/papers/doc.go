// Package papers is the command "papers": the experiments of publications about the read path of
// Kubernetes, each as one command.
//
// A Paper is data: the benches to run with their flags, the published figures, and the paths of
// the same figures in the JSON of the benches. A step runs a subcommand of package bench as a user
// would, and reads its JSON. A report keeps this JSON, so that it can be shown again without
// measuring.
//
// The package measures nothing itself. To show a new figure, let a bench report it first.
package papers
