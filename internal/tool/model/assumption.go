package model

// assumptions returns the constants that no report has. The Source of each says what it rests on.
//
// The code uses Go constants for limit.*, sized.*, labelShare and controllers, and reads no value
// of these names: they are here so that all assumptions are listed.
func assumptions() Constants {
	return Constants{
		"kubernetes.writeBusy": {1.09e-3, "s", Assumed, "updates of config maps by 16 writers at kube-apiserver 1.37.2, by hand, without a report; at a quiet server kubernetes.writeQuiet was measured", "a write at a server that is busy with writes"},
		"millrace.writeBusy":   {0.67e-3, "s", Assumed, "updates of config maps by 16 writers at millrace serve, by hand, without a report", "a write at a server that is busy with writes"},
		"wakeups":              {200, "1/s", Assumed, "reports have rates of up to 100 writes/s, at which each write still costs the quiet price", "writes or events a second for which a process pays the quiet price; further ones cost the busy price"},
		"kubernetes.follow":    {100e-6, "s", Assumed, "a start of kube-apiserver over 20,000 pods of 8 KB takes 8 s of CPU (docs/bench/cold-readers-stock.json), of which some 2.5 are an empty server's: 0.27 ms a pod; for 3 KB a third", "an event of the store, at each server"},
		"millrace.follow":      {40e-6, "s", Assumed, "docs/bench/history.md: an event of 2.7 KB in a replay, measured without a report", "an event of the store, at each server"},
		"replica.followBusy":   {40e-6, "s", Assumed, "millrace.follow, whose code replicas share", "an event of a feed, at a replica that is busy"},
		"replica.passOn":       {453e-6, "s", Assumed, "no more than a GET costs the stock server, whose filters a passed-on request goes through", "a write that a replica passes on"},
		"etcd.writeBusy":       {0.27e-3, "s", Assumed, "etcd's page on performance (etcd.io/docs/v3.6/op-guide/performance): 30,000 writes/s on machines of 8 processors, so no more than this", "a write, in etcd that is busy"},
		"etcd.writesPerSecond": {30000, "1/s", Assumed, "etcd's page on performance (etcd.io/docs/v3.6/op-guide/performance): more than 30,000 requests a second under heavy load, three members on SSDs", "the most that one etcd takes"},
		"etcd.databaseBytes":   {8 << 30, "B", Assumed, "etcd's page on limits (etcd.io/docs/v3.6/dev-guide/limit): 8 GiB is the suggested maximum", "the largest database"},
		"etcd.historySeconds":  {450, "s", Assumed, "kube-apiserver compacts every 5 minutes what is older than 5 minutes: 5 to 10 minutes of the past are kept", "the past that the database has, on the average"},
		"streams":              {100, "1", Assumed, "kube-apiserver's limit of HTTP/2 streams for each connection (k8s.io/apiserver); a client opens another connection beyond it", "watches of one connection"},
		"limit.storm":          {requestTimeout, "s", Assumed, "kube-apiserver's --request-timeout, after which a LIST is cut off and sent again; watch-lists go on", "the longest time until all programs have all objects"},
		"limit.event":          {eventObjective, "s", Assumed, "the objective of docs/slo.md; Kubernetes has none for watch events", "the p99 of watch events, and the time for one event to all its watchers"},
		"sized.cpu":            {sizedCPU, "1", Assumed, "half is for the failure of a neighbour, and for peaks", "fraction of a replica's processors that the model uses when it chooses the number of replicas"},
		"sized.memory":         {sizedMemory, "1", Assumed, "the rest is for peaks", "fraction of a replica's memory that the model uses when it chooses the number of replicas"},
		"sized.network":        {sizedNetwork, "1", Assumed, "half is for the failure of a neighbour, and for peaks", "fraction of a replica's network that the model uses when it chooses the number of replicas"},
		"sized.event":          {sizedEvent, "s", Assumed, "a tenth of limit.event", "time for one event to all watchers of a replica, when the model chooses the number of replicas"},
		"sized.fanout":         {fanout, "1", Assumed, "docs/bench/tree.md has two", "most replicas that follow one process, when the model chooses the number of replicas"},
		"labelShare":           {labelShare, "1", Assumed, "millrace-tools analyze assumes this fraction, too", "fraction of objects that a selector by a label's value selects"},
		"controllers":          {controllers, "1", Assumed, "the controller manager and the scheduler", "clients of the control plane that watch each resource, at the servers"},
		"hop":                  {0.5e-3, "s", Assumed, "a network between machines of one site", "the network's part of the way of an event, for each hop"},
	}
}
