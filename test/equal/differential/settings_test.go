package differential

import "testing"

// setting is a configuration of Millrace that must not change any answer.
type setting struct {
	name string
	args []string
}

// settings are compared with the default configuration.
var settings = []setting{
	{"no wire cache", []string{"--wire-cache-size=0"}},
	{"tiny wire cache", []string{"--wire-cache-size=64Ki"}},
	{"small leaves, eager indexes, no history", []string{"--leaf-objects=3", "--index-from=2", "--history-window=1ms", "--history-events=1", "--wire-cache-size=1Mi", "--compiled-schemas-bytes=1"}},
}

// settingRequests is the number of requests to each setting at rest.
const settingRequests = 500

// agreesWith compares a server with other settings with ours, including tokens:
// at rest, and at exact revisions during writes.
func (p *pair) agreesWith(t *testing.T, s setting, gen *requestGenerator) {
	other := startBeside(t, p.ours.Server, concat(everything, concat(s.args, "--read-path=millrace")...)...)
	both := &pair{tb: t, ours: newSide(t, other), theirs: p.ours, etcd: p.etcd, sameTokens: true}
	both.agree(t, gen.distinct(scaled(t, settingRequests)))
	both.underWrites(t, gen)
	p.watchExpired(t, both.ours, gen)
}
