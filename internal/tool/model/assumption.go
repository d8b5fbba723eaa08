package model

import "maps"

// assumptions returns the constants that no report has. The Source of each says what it rests on.
func assumptions() Constants {
	constants := maps.Clone(assumptionTable)
	for name, c := range constants {
		c.Origin = Assumed
		constants[name] = c
	}
	return constants
}

// assumptionTable has the assumptions without their Origin.
//
// The code uses Go constants for limit.*, sized.*, labelShare and controllers. It never reads their
// values from constants.json, which lists all assumptions.
var assumptionTable = Constants{
	"kubernetes.writeBusy": {
		Value: 1.09e-3, Unit: "s", Meaning: "a write at a server that is busy with writes",
		Source: "updates of config maps by 16 writers at kube-apiserver 1.37.2, by hand, without a report; " +
			"at a quiet server kubernetes.writeQuiet was measured",
	},
	"millrace.writeBusy": {
		Value: 0.67e-3, Unit: "s", Meaning: "a write at a server that is busy with writes",
		Source: "updates of config maps by 16 writers at millrace serve, by hand, without a report",
	},
	"quietRate": {
		Value: 200, Unit: "1/s", Meaning: "writes or events per second at the quiet price of a process; further ones cost the busy price",
		Source: "reports have rates of up to 100 writes/s, at which each write still costs the quiet price",
	},
	"kubernetes.follow": {
		Value: 100e-6, Unit: "s", Meaning: "an event of the store, at each server",
		Source: "a start of kube-apiserver over 20,000 pods of 8 KB takes 8 s of CPU (docs/bench/cold-readers-stock.json), " +
			"of which some 2.5 are an empty server's: 0.27 ms per pod; for 3 KB a third",
	},
	"millrace.follow": {
		Value: 40e-6, Unit: "s", Meaning: "an event of the store, at each server",
		Source: "docs/bench/history.md: an event of 2.7 KB in a replay, measured without a report",
	},
	"replica.followBusy": {
		Value: 40e-6, Unit: "s", Meaning: "an event of a feed, at a replica that is busy",
		Source: "millrace.follow, whose code replicas share",
	},
	"replica.passOn": {
		Value: 453e-6, Unit: "s", Meaning: "a write that a replica passes on",
		Source: "no more than a GET costs the stock server, whose filters a passed-on request goes through",
	},
	"etcd.writeBusy": {
		Value: 0.27e-3, Unit: "s", Meaning: "a write, in etcd that is busy",
		Source: "etcd's page on performance (etcd.io/docs/v3.6/op-guide/performance): 30,000 writes/s on machines of " +
			"8 processors, so no more than this",
	},
	"etcd.writesPerSecond": {
		Value: 30000, Unit: "1/s", Meaning: "the largest number of writes that one etcd takes",
		Source: "etcd's page on performance (etcd.io/docs/v3.6/op-guide/performance): more than 30,000 requests/s " +
			"under heavy load, three members on SSDs",
	},
	"etcd.databaseBytes": {
		Value: 8 << 30, Unit: "B", Meaning: "the largest database",
		Source: "etcd's page on limits (etcd.io/docs/v3.6/dev-guide/limit): 8 GiB is the suggested maximum",
	},
	"etcd.historySeconds": {
		Value: 450, Unit: "s", Meaning: "the history that the database has, on the average",
		Source: "every 5 minutes kube-apiserver compacts the history that is older than 5 minutes, so 5 to 10 minutes are kept",
	},
	"streams": {
		Value: 100, Unit: "1", Meaning: "watches of one connection",
		Source: "kube-apiserver's limit of HTTP/2 streams per connection (k8s.io/apiserver); a client opens another connection beyond it",
	},
	"limit.storm": {
		Value: requestTimeoutSeconds, Unit: "s", Meaning: "the longest time until all programs have all objects",
		Source: "kube-apiserver's --request-timeout: a LIST that takes longer is cut off and sent again; watch-lists go on",
	},
	"limit.event": {
		Value: eventObjectiveSeconds, Unit: "s", Meaning: "the p99 of watch events, and the time for one event to all its watchers",
		Source: "the objective of docs/slo.md; Kubernetes has none for watch events",
	},
	"sized.cpu": {
		Value: sizedCPU, Unit: "1", Meaning: "fraction of a replica's processors that the model uses when it chooses the number of replicas",
		Source: "half is for the failure of a neighbour, and for peaks",
	},
	"sized.memory": {
		Value: sizedMemory, Unit: "1", Meaning: "fraction of a replica's memory that the model uses when it chooses the number of replicas",
		Source: "the rest is for peaks",
	},
	"sized.network": {
		Value: sizedNetwork, Unit: "1", Meaning: "fraction of a replica's network that the model uses when it chooses the number of replicas",
		Source: "half is for the failure of a neighbour, and for peaks",
	},
	"sized.event": {
		Value: sizedEvent, Unit: "s", Meaning: "time for one event to all watchers of a replica, when the model chooses the number of replicas",
		Source: "a tenth of limit.event",
	},
	"sized.fanout": {
		Value: fanout, Unit: "1", Meaning: "largest number of replicas that follow one process, when the model chooses the number of replicas",
		Source: "docs/bench/tree.md has two replicas",
	},
	"labelShare": {
		Value: labelShare, Unit: "1", Meaning: "fraction of objects that a selector by a label's value selects",
		Source: "millrace-tools analyze assumes this fraction, too",
	},
	"controllers": {
		Value: controllers, Unit: "1", Meaning: "clients of the control plane that watch each resource, at the servers",
		Source: "the controller manager and the scheduler",
	},
	"hop": {
		Value: 0.5e-3, Unit: "s", Meaning: "the network's part of the latency of an event, per hop",
		Source: "a network between machines of one site",
	},
}
