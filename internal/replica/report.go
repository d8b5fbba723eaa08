package replica

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/replica/follow"
	"github.com/millrace/millrace/internal/replica/upstream"
)

// reporter makes the report about the upstream.
type reporter struct {
	upstream   *upstream.Upstream
	address    string
	ownVersion string
	usesEtcd   bool
	tier       *tiermount.ReadTier
	counters   *upstream.Metrics
	// resources is nil if the replica follows etcd.
	resources *follow.Resources
	// skew is follow.Policy.Skew.
	skew func() string
}

func (r *Replica) newReporter(config *rest.Config, tier *tiermount.ReadTier, counters *upstream.Metrics) *reporter {
	return &reporter{
		upstream: r.upstream, address: strings.TrimSuffix(config.Host, "/"), ownVersion: r.options.Kube.VersionInfo().GitVersion,
		usesEtcd: r.options.usesEtcd(), tier: tier, counters: counters, resources: r.resources, skew: r.policy.Skew,
	}
}

// report implements Replica of dashboard.Source.
func (p *reporter) report() serverreport.ReplicaReport {
	now := time.Now()
	made := serverreport.ReplicaReport{
		Time: now, Upstream: p.address, UpstreamVersion: p.upstream.Version(), OwnVersion: p.ownVersion, Skew: p.skew(), Source: "api", Depth: p.tier.Backends.Depth(), Followed: []serverreport.FollowedResource{},
		Reads:    p.tier.ReadAccounts.ByResource(),
		Answered: counts(p.tier.Counters.Answered()), PassedOn: counts(p.counters.PassedOn), Refused: counts(p.counters.Refused), UpstreamRequests: counts(p.counters.Requests),
	}
	if p.usesEtcd {
		made.Source = "etcd"
	}
	made.Spared.Requests, made.Spared.RequestBytes = p.tier.ReadAccounts.AnsweredTotals()
	made.Spared.Events, made.Spared.EventBytes = p.tier.Backends.WatchAccounts.DeliveredTotals()
	made.Spared.CPUSeconds = usage.StockCPU(&made.Spared)
	for reason, count := range counts(p.tier.Counters.PassedOn()) {
		made.PassedOn[reason] += count
	}
	for _, b := range p.tier.Backends.All() {
		f := serverreport.FollowedResource{Name: strings.TrimPrefix(b.Servers, p.address+"/"), Revision: b.Cache.Progress().Revision()}
		for _, r := range b.Cache.Resources() {
			f.Objects += r.Snapshot().Len()
		}
		if at := b.HeardAt(); !at.IsZero() {
			f.SinceHeardSeconds = now.Sub(at).Seconds()
		}
		if err := b.Feed.Healthy(); err != nil {
			f.Error = err.Error()
			if since := b.Feed.BrokenSince(); !since.IsZero() {
				f.BrokenSeconds = now.Sub(since).Seconds()
			}
		}
		made.Followed = append(made.Followed, f)
	}
	if p.resources != nil {
		for _, r := range p.resources.RefusedResources() {
			made.Followed = append(made.Followed, serverreport.FollowedResource{Name: r.Key.String(), Named: r.Named, Refused: string(r.Why), Error: r.Why.Text()})
		}
	}
	slices.SortFunc(made.Followed, func(a, b serverreport.FollowedResource) int {
		if (a.Error != "") != (b.Error != "") {
			if a.Error != "" {
				return -1
			}
			return 1
		}
		return cmp.Or(-cmp.Compare(a.Objects, b.Objects), cmp.Compare(a.Name, b.Name))
	})
	made.FindCauses()
	return made
}

// counts returns the values of a counter with one label, by the label's value.
func counts(counters *metrics.CounterVec) map[string]uint64 {
	all := map[string]uint64{}
	collected := make(chan prometheus.Metric)
	go func() {
		defer close(collected)
		counters.Collect(collected)
	}()
	for m := range collected {
		var written dto.Metric
		if m.Write(&written) == nil && len(written.GetLabel()) == 1 {
			all[written.GetLabel()[0].GetValue()] = uint64(written.GetCounter().GetValue())
		}
	}
	return all
}
