// Package provision is the command "bench provision". It measures pods from their creation until they
// run, as their watchers see it. Kubernetes' own scheduler and controller manager work with hollow
// nodes.
//
//	creation ─► controllers ─► scheduler ─► hollow kubelets
//	     └───────────┴─────────────┴──────────────┴──► server (or replica ─► server) ─► etcd
//	                                    watchers of all pods ◄──┘          clock ◄──────┘
//
// A path is a way to read. Each path has servers and an etcd of its own: none starts with data that
// another path has left. With a kubeconfig the only path is a cluster that exists.
//
// A write's time is when etcd has it: the clock watches etcd. Without access to etcd it is when the
// answer to the write came, for the writes of this process.
package provision
