// Package fake makes reports of a busy cluster that does not exist, for tests of
// programs that show reports. Some names are such as hostile clients choose.
package fake

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/account/serverreport"
)

// Names that a client can choose. They must be shown as text.
const (
	HostileScript = `<script>document.title="owned"</script>`
	HostileImage  = `"><img src=x onerror=alert(1)>/1.0`
	// HostileTerminal would clear a terminal and reverse text.
	HostileTerminal = "evil\x1b[2J\x1b]0;owned\x07\u202e\xff"
)

// Cluster makes reports. Most of their figures change from one report to the next. Any goroutine
// may call it.
type Cluster struct {
	// Well makes an SLO report whose objectives are met and which has no findings. There are no
	// watches that lag or are passed on, no storms, and no differences of transcoding. Rows
	// of slow clients and late feeds stay. Well must be set before the first
	// report.
	Well bool

	mu    sync.Mutex
	rand  *rand.Rand
	begin time.Time
}

// New makes a cluster whose SLO report has findings.
func New() *Cluster { return &Cluster{rand: rand.New(rand.NewPCG(1, 2)), begin: time.Now()} }

// Source returns the functions that a server gives to the dashboard.
func (c *Cluster) Source() dashboard.Source {
	return dashboard.Source{SLO: c.slo, Watchers: c.watchers, Lists: c.lists, Memory: c.memory, CRDs: c.crds, Feed: c.feed, Replica: c.replica}
}

// about returns x, off by a random part of share*x.
func (c *Cluster) about(x, share float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return x * (1 + share*(2*c.rand.Float64()-1))
}

func (c *Cluster) quantiles(p50, p99 float64, n uint64) serverreport.Quantiles {
	return serverreport.Quantiles{Count: n, P50: c.about(p50, .1), P99: c.about(p99, .3), P999: p99 * 2.1, Max: p99 * 3.7}
}

// grown returns a counter that grows at a rate per second.
func (c *Cluster) grown(from, perSecond float64) uint64 {
	return uint64(from + perSecond*time.Since(c.begin).Seconds())
}

func (c *Cluster) stages(shares ...float64) []serverreport.StageTime {
	var all []serverreport.StageTime
	for i, s := range []serverreport.Stage{serverreport.StageEtcd, serverreport.StageDecode, serverreport.StageDispatch, serverreport.StageEncode, serverreport.StageClient, serverreport.StageConnection} {
		p99 := .08 * shares[i]
		if s == serverreport.StageEtcd {
			p99 = .004
		}
		all = append(all, serverreport.StageTime{Stage: s, Quantiles: c.quantiles(p99/9, p99, 41_000), Share: shares[i]})
	}
	return all
}

func (c *Cluster) slo() serverreport.SLOReport {
	row := func(name string, objective, p50, p99 float64, n uint64, cause serverreport.Cause, shares ...float64) serverreport.ResourceSLO {
		if c.Well {
			p50, p99, cause = p50/5, p99/5, ""
		}
		r := serverreport.ResourceSLO{
			Resource: name, ObjectiveSeconds: objective, Spans: c.quantiles(p50, p99, n), Stages: c.stages(shares...), Cause: cause,
			Events: c.grown(float64(n)*90, float64(n)/60), Bytes: c.grown(float64(n)*90e3, float64(n)*150), Burn: serverreport.Burn{Hour: .31, SixHours: .12},
		}
		if r.Met = r.Spans.P99 <= objective; !r.Met {
			r.Late, r.Burn = uint64(float64(n)*.034), serverreport.Burn{FiveMinutes: 14.2, Hour: 3.1, SixHours: .7}
		}
		return r
	}
	pods := row("pods", .1, .0041, .284, 1_204_331, serverreport.Cause(serverreport.StageClient), 0, .02, .11, .06, .74, .07)
	result := serverreport.SLOReport{
		Time: time.Now(), All: row("", .1, .0032, .121, 1_731_200, serverreport.Cause(serverreport.StageClient), 0, .03, .14, .09, .66, .08),
		Resources: []serverreport.ResourceSLO{
			pods,
			row("widgets.example.com", .5, .02, .461, 12_000, serverreport.CauseSize, 0, .04, .1, .7, .1, .06),
			row("endpointslices.discovery.k8s.io", .1, .0038, .061, 322_810, serverreport.Cause(serverreport.StageDispatch), 0, .08, .6, .2, .1, .02),
			row("leases.coordination.k8s.io", .1, .0017, .012, 190_004, "", 0, .2, .5, .2, .05, .05),
			row("events", .1, .0021, .0093, 87_010, "", 0, .2, .5, .2, .05, .05),
			row("nodes", .1, .0044, .0212, 5_204, "", 0, .1, .3, .5, .05, .05),
			row("configmaps", .1, .0008, .0031, 118, "", 0, .3, .4, .2, .05, .05),
			row("secrets", .1, .0007, .00092, 7, "", 0, .3, .4, .2, .05, .05),
		},
		Clients: []serverreport.ClientSLO{
			{Client: serverreport.Client{User: "system:serviceaccount:monitoring:exporter", UserAgent: "slow-exporter"}, Spans: c.quantiles(.9, 12.4, 12_000), Late: 9_210, Watches: 3, Cause: "client"},
			{Client: serverreport.Client{User: HostileScript, UserAgent: HostileImage}, Spans: c.quantiles(.02, .3, 9_000), Late: 310, Watches: 1, Cause: "connection"},
			{Client: serverreport.Client{User: "system:kube-scheduler", UserAgent: "kube-scheduler"}, Spans: c.quantiles(.002, .011, 310_000), Watches: 14},
		},
		Subscriptions: []serverreport.SubscriptionSLO{
			{Resource: "pods", Selection: "", Watches: 12, Spans: c.quantiles(.004, .29, 400_000), Events: 1_900_211},
			{Resource: "pods", Selection: "fields: spec.nodeName=node-00417", Watches: 1, Spans: c.quantiles(.003, .02, 211), Events: 9_210},
			{Resource: "widgets.example.com", Selection: "labels: app in (<b>a</b>,b)", Watches: 3, Spans: c.quantiles(.02, .4, 911), Events: 4_101},
		},
		Probe:   &serverreport.Probe{Whole: c.quantiles(.0052, .031, 60), Commit: c.quantiles(.0004, .0031, 60), PendingSeconds: .4},
		Process: serverreport.Process{Delay: c.quantiles(.00006, .0019, 6000), CPU: c.about(1.42, .1), Processors: 2},
	}
	if c.Well {
		result.Met, result.All.Met, result.All.Spans.P99, result.All.Late = true, true, c.about(.02, .3), 0
		return result
	}
	result.Causes = []serverreport.Finding{
		{Cause: "client", Severity: "critical", Resource: "pods", Client: "slow-exporter", Message: "3 watches of slow-exporter do not read their streams: 74 % of the time of the slowest events is spent waiting for them.", Advice: "Give the client more CPU, or let it handle events in another goroutine than the one that reads."},
		{Cause: "size", Severity: "warning", Resource: "widgets.example.com", Client: HostileImage, Message: "Late events are 1.8 MB each; others of the resource are 4 kB.", Advice: "See which field grows: status with a list of all that was ever done is the usual one."},
	}
	return result
}

func (c *Cluster) watchers() serverreport.WatchersReport {
	result := serverreport.WatchersReport{
		Time: time.Now(), Watches: 20_412, Subscriptions: 5_120, Clients: 5_009, Waiting: int(c.about(37, .4)),
		Events: c.grown(9.1e8, 28_800), Bytes: c.grown(1.2e12, 41e6), Expired: 12,
		ByResource: []serverreport.ResourceWatchers{
			{Resource: "pods", Watches: 5_101, Subscriptions: 5_004, LogEvents: 211_004, LogBytes: 61_000_000, LogSeconds: 212},
			{Resource: "configmaps", Watches: 5_020, Subscriptions: 41, LogEvents: 91, LogBytes: 101_000, LogSeconds: 291},
			{Resource: "endpointslices.discovery.k8s.io", Watches: 5_000, Subscriptions: 1, LogEvents: 31_000, LogBytes: 41_000_000, LogSeconds: 299},
			{Resource: "widgets.example.com", Watches: 4, Subscriptions: 3, LogEvents: 2_000, LogBytes: 8_000_000, LogSeconds: 300},
		},
	}
	if c.Well {
		return result
	}
	result.PassedOn = 15
	result.PassedOnBy = []serverreport.PassedOnWatches{
		{Client: serverreport.Client{User: "system:serviceaccount:storage:csi", UserAgent: "csi-snapshotter"}, Resource: "volumesnapshots.snapshot.storage.k8s.io", Reason: "resource", Watches: 12},
		{Client: serverreport.Client{User: HostileScript, UserAgent: HostileTerminal}, Resource: "widgets.example.com", Reason: "accept", Watches: 3},
	}
	states := []string{"client", "connection", "initial", "following"}
	for i := range 23 {
		behind := 41.2 * math.Exp(-float64(i)/3)
		w := serverreport.Watcher{
			ID: uint64(9000 + i), Resource: "pods", Client: serverreport.Client{User: fmt.Sprintf("system:node:node-%05d", i*37), UserAgent: "kubelet"},
			Address: fmt.Sprintf("10.4.%d.%d:51%03d", i, i*7, i), Protocol: "HTTP/2.0", Selection: fmt.Sprintf("fields: spec.nodeName=node-%05d", i*37),
			Encoding: "protobuf gzip", AgeSeconds: 86_400 * 1.7, State: states[i%4], BehindEvents: int64(behind * 201), BehindBytes: int64(behind * 410_000), BehindSeconds: c.about(behind, .02),
			Events: 1_204_110, Bytes: 812_000_000,
		}
		if i == 1 {
			w.Client, w.Selection = serverreport.Client{User: HostileScript, UserAgent: HostileImage}, "labels: <svg onload=alert(2)>"
		}
		if i == 2 {
			w.UserAgent = HostileTerminal
		}
		result.Behind = append(result.Behind, w)
	}
	return result
}

func (c *Cluster) lists() serverreport.ListsReport {
	expensive := serverreport.Client{User: "alice@example.com", UserAgent: "kubectl"}
	shape := serverreport.Shape{Verb: "list", Resource: "pods", Version: "v1", Scope: "cluster", Selectors: "labels: app; fields: status.phase", Revision: "unset", Encoding: "json", Path: "scan"}
	cheap := serverreport.Shape{Verb: "list", Resource: "pods", Version: "v1", Scope: "cluster", Selectors: "fields: spec.nodeName", Revision: "0", Encoding: "protobuf gzip", Path: "index"}
	result := serverreport.ListsReport{
		Time: time.Now(), Total: serverreport.ListCost{Requests: c.grown(911_000, 12), Objects: 81_000_411, Scanned: 2_100_411_021, ScannedBytes: 9e12, Bytes: 4.1e12, CPU: 8_210, Seconds: 91_000},
		Shapes: []serverreport.ListShape{
			{Shape: shape, ListCost: serverreport.ListCost{Requests: 1_210, Objects: 12_100, Scanned: 121_000_000, Bytes: 91e6, CPU: 84.2, Seconds: 121}, Clients: []serverreport.Client{expensive, {User: HostileScript, UserAgent: HostileImage}},
				Advice: []string{"Each request looks at 10,000 objects for one that it returns: select by a label that few objects have, or by namespace.", "Read with resourceVersion=0 where a state of a second ago is good enough."}},
			{Shape: cheap, ListCost: serverreport.ListCost{Requests: 5_001, Objects: 151_000, Scanned: 151_000, Bytes: 1.2e9, CPU: 2.1, Seconds: 5.2}, Clients: []serverreport.Client{{User: "system:node:node-00001", UserAgent: "kubelet"}}},
			{Shape: serverreport.Shape{Verb: "get", Resource: "leases.coordination.k8s.io", Version: "v1", Scope: "name", Revision: "unset", Encoding: "protobuf", Path: "key"}, ListCost: serverreport.ListCost{Requests: 301_000, Objects: 301_000, Scanned: 301_000, Bytes: 91e6, CPU: 1.9, Seconds: 92}},
		},
		Clients: []serverreport.ListClient{
			{Client: expensive, ListCost: serverreport.ListCost{Requests: 1_210, Objects: 12_100, Scanned: 121_000_000, Bytes: 91e6, CPU: 84.2, Seconds: 121}, Top: shape, Advice: []string{"Watch instead of listing every half second."}},
			{Client: serverreport.Client{User: "system:node:node-00001", UserAgent: "kubelet"}, ListCost: serverreport.ListCost{Requests: 5_001, Objects: 151_000, Scanned: 151_000, Bytes: 1.2e9, CPU: 2.1, Seconds: 5.2}, Top: cheap},
		},
		Pacing: true, Paced: 412,
		Transcoding: &serverreport.TranscodingCounts{Transcoded: 8_101_411, Compared: 63_291, Different: 12, Refuted: 311, Declined: 48, Normalized: 290, Proven: 1_204},
	}
	if !c.Well {
		result.Transcoding.Last = &serverreport.TranscodingDifference{
			Time: time.Now(), Form: "deployments.apps v1 json", Key: "team/" + HostileImage, Revision: 4711, Place: ".metadata.annotations", Stopped: true,
		}
		result.Storms = []serverreport.Storm{
			{UserAgent: "cilium-agent", Resource: "pods", Began: time.Now().Add(-41 * time.Second), Clients: 3_104, Fleet: 5_000, Requests: 3_120, Bytes: 98e9, Advice: "Roll the daemon set out with a smaller maxUnavailable, and let it list with resourceVersion=0."},
			{UserAgent: HostileImage, Resource: "secrets", Began: time.Now().Add(-9 * time.Minute), Ended: time.Now().Add(-8 * time.Minute), Clients: 31, Fleet: 40, Requests: 66, Bytes: 4e6, Advice: "It is over."},
		}
	}
	return result
}

func (c *Cluster) memory() serverreport.MemoryReport {
	return serverreport.MemoryReport{
		Time: time.Now(), Resident: int64(c.about(1.31e9, .01)), Limit: 4 << 30, Heap: 811e6, Goroutines: int(c.about(41_000, .05)), Wire: 251e6, WireLimit: 320 << 20,
		Resources: []serverreport.ResourceMemory{
			{Resource: "pods", Objects: 100_000, Values: 221e6, Log: 61e6, Forms: map[string]int64{"v1 json": 61e6, "v1 protobuf": 141e6, "v1 json table": 9e6}, Indexes: []string{"field spec.nodeName", "label app"}},
			{Resource: "endpointslices.discovery.k8s.io", Objects: 20_000, Values: 31e6, Log: 41e6, Forms: map[string]int64{"v1 protobuf": 31e6}},
			{Resource: "widgets.example.com", Objects: 2_000, Values: 12e6, Log: 8e6, Indexes: []string{"label <i>x</i>"}},
			{Resource: "nodes", Objects: 5_000, Values: 9e6, Log: 4e6, Forms: map[string]int64{"v1 json": 4e6, "v1 protobuf": 3e6}},
			{Resource: "leases.coordination.k8s.io", Objects: 5_000, Values: 1.1e6, Log: 3e6},
		},
	}
}

func (c *Cluster) crds() serverreport.CRDsReport {
	result := serverreport.CRDsReport{Time: time.Now(), Definitions: 2_014, Served: 41, Compiled: 12, CompiledBytes: 31e6, CompiledLimit: 64 << 20}
	for i, name := range []string{"compositions.apiextensions.crossplane.io", "widgets.example.com", "certificates.cert-manager.io", "virtualservices.networking.istio.io", "prometheuses.monitoring.coreos.com"} {
		result.Top = append(result.Top, serverreport.CRDCost{Name: name, Objects: 4_000 >> (2 * i), DefinitionBytes: int64(400_000 - 60_000*i), ObjectBytes: int64(12_000_000 >> (2 * i)), CompiledBytes: int64(9_000_000 >> i), Webhook: i == 2})
	}
	return result
}

func (c *Cluster) feed() serverreport.FeedReport {
	return serverreport.FeedReport{Time: time.Now(), Feeds: []serverreport.Feed{
		{Prefix: "/registry/", Endpoints: []string{"https://10.0.0.2:2379", "https://10.0.0.3:2379"}, Revision: int64(c.grown(81_204_110, 700)), Delivery: c.quantiles(.0011, .0042, 600), Events: c.grown(8.1e7, 700), Bytes: c.grown(9.1e11, 5e6), Loads: 1},
		{Prefix: "/registry/events/", Endpoints: []string{"https://10.0.0.9:2379"}, Revision: 911_204, LateSeconds: 7.2, Delivery: c.quantiles(.002, .4, 600), Events: 911_000, Bytes: 2e9, Restarts: 3, Loads: 2},
	}}
}

func (c *Cluster) replica() serverreport.ReplicaReport {
	return serverreport.ReplicaReport{
		Time: time.Now(), Upstream: "https://api.example.com:6443", UpstreamVersion: "v1.37.1", OwnVersion: "v1.37.2", Source: "api", Depth: 1,
		Followed: []serverreport.FollowedResource{
			{Name: "widgets.example.com", Objects: 40, Revision: 81_100_000, SinceHeardSeconds: 12, BrokenSeconds: 12, Error: "feed from https://api.example.com:6443/apis/example.com/v1/widgets is broken: connection refused"},
			{Name: "pods", Objects: 104_000, Revision: int64(c.grown(81_204_110, 700)), SinceHeardSeconds: .08},
			{Name: "nodes", Objects: 5_000, Revision: 81_204_001, SinceHeardSeconds: 14},
		},
		Answered:         map[string]uint64{"LIST": c.grown(1.2e6, 80), "GET": c.grown(9e5, 40), "WATCH": 20_412},
		PassedOn:         map[string]uint64{"not-read": c.grown(41_000, 9), "denied": 12, "unproven": 340, "version-skew": 3},
		UpstreamRequests: map[string]uint64{"token": c.grown(40_200, 9), "impersonation": 990, "anonymous": 4},
		Refused:          map[string]uint64{"certificate": 17, "bytes": c.grown(310, 1)},
		Spared:           serverreport.SparedWork{Requests: c.grown(2.1e6, 120), RequestBytes: c.grown(6e12, 4e6), Events: c.grown(4e9, 9e4), EventBytes: c.grown(8e12, 2e8), CPUSeconds: 144_000},
	}
}
