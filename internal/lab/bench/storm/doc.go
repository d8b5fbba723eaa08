// Package storm is the command "bench storm": it measures the start storm, the time in which all
// clients of a cluster come at once to a server that was just started.
//
//	hollow nodes: kubelets, kube-proxies, agents ──┐
//	bystander: a GET every 50 ms ──────────────────┴─► server, started anew ── etcd
//
// Each server has two storms over the same data. In the first one all clients are new, and list
// everything. Then they run until their back-off has forgotten the start, the server is killed and
// started anew, and they return: they resume their watches, or list anew where they cannot.
//
// The package starts and ends all servers itself. The clients are those of package hollow. It is
// not for a server that exists, and checks no content of answers.
package storm
