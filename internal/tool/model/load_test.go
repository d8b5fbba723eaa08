package model

import (
	"testing"

	"github.com/millrace/millrace/internal/tool/model/simulation"
)

// TestCompressedWatchList checks that kube-apiserver sends watch-lists uncompressed, and that other
// servers send fewer bytes at the price of compression.
func TestCompressedWatchList(t *testing.T) {
	r := constantReader{constants: defaultConstants(t)}
	plain := readLoad{count: 1, kind: readInitial, objects: 1000, bytes: 4e6, encoding: "json"}
	zipped := plain
	zipped.gzip = true
	for _, name := range []string{kubernetes, millrace, replica} {
		p := r.pricesOf(name)
		p.gzipByte["json"] = 2*p.listByte["json"] + 1e-9
		compresses := name != kubernetes
		if less, more := zipped.sentBytes(p) < plain.sentBytes(p), zipped.cpuSeconds(p) > plain.cpuSeconds(p); less != compresses || more != compresses {
			t.Errorf("%s: sent %g, plain %g; CPU %g, plain %g", name, zipped.sentBytes(p), plain.sentBytes(p), zipped.cpuSeconds(p), plain.cpuSeconds(p))
		}
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
}

// TestTierCores checks that the simulated work of a tier takes no processors from itself.
func TestTierCores(t *testing.T) {
	const perSecond, children = 100, 10
	cluster := defaultCluster()
	cluster.Cores = 4
	s := latencySimulation{cluster: &cluster, classes: []simulation.Class{{PerSecond: perSecond}}}
	u := &ProcessUsage{Processes: 2, prices: &prices{event: 1e-3, takeBusy: 2e-3}}
	u.CPU = 2*perSecond*2e-3 + perSecond*children*1e-3 + 1 // taking in, feeding, and something else
	tier, ok := s.tierConfig(u, true, children)
	if want := 4 - 1.0/2; !ok || tier.Cores < want-1e-9 || tier.Cores > want+1e-9 {
		t.Errorf("got %+v, %v, want %g processors", tier, ok, want)
	}
}
