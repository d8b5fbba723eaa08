// Package storm is the command "bench storm": it measures the start storm. In a start storm all
// clients of a cluster come at once to a server that was just started.
//
//	hollow nodes: kubelets, kube-proxies, agents ──┐
//	bystander: a GET every 50 ms ──────────────────┴─► server, restarted ── etcd
//
// Each server has two storms over the same data. In the first storm all clients are new, and list
// everything. Then the clients run until their back-off has forgotten the start. The server is killed
// and restarted, and the clients return: they resume their watches, or relist where they cannot.
//
// Package hollow runs the clients. The package starts and ends all servers itself. It does not measure
// a server that exists, and does not check the content of answers.
package storm
