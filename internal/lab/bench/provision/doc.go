// Package provision is the command "bench provision": it measures pods from their creation
// until they run, as their watchers see it, with Kubernetes' own scheduler and controller
// manager, and with hollow nodes.
//
//	creation ─► controllers ─► scheduler ─► hollow kubelets
//	     └───────────┴─────────────┴──────────────┴──► server (or replica ─► server) ─► etcd
//	                                    watchers of all pods ◄──┘          clock ◄──────┘
//
// Each path, which is a way to read, has servers and an etcd of its own, so that none begins
// with what another one has left. With a kubeconfig the only path is a cluster that exists.
//
// A write's time is when etcd has it, which the clock watches. Without access to etcd it is
// when the answer to the write came, for the writes of this process.
package provision
