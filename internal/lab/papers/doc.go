// Package papers is the command "papers": the experiments of publications about the read path of
// Kubernetes, each as one command.
//
// A Paper is data: what benches run with which flags, the figures that were published, and
// where their like is in what the benches print. The benches are those of package bench: a step
// runs one as a user would, and reads what it prints as JSON. A report keeps what they print, so
// that it can be shown again without measuring.
//
// The package measures nothing itself. A figure that no bench has belongs into a bench first.
package papers
