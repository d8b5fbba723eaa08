package follow

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/apiserver/tiermount"
	"github.com/millrace/millrace/internal/tier/read"
)

// maxSkew is how many minor versions older or newer an upstream may be whose objects are sent
// on as they come. Beyond that, the rules of the API that do not depend on types may differ,
// too.
const maxSkew = 3

// settledUpgrade is how long the upstream's version must stay the same before a replica that
// could answer more with it is restarted. An upgrade of several servers takes its time, and may
// be undone.
const settledUpgrade = 10 * time.Minute

// mode is how built-in resources are answered. A lesser mode answers more.
type mode int

const (
	// decoded: objects are decoded by the types of this program, which are also the
	// upstream's.
	decoded mode = iota
	// verbatim: objects are answered as the upstream sends them.
	verbatim
	// passing: reads are passed on.
	passing
)

// modeFor returns the mode for an upstream with a skew. An upstream's etcd has no defaults in
// its objects, and the defaults of another version are not known here. So the API of an
// upstream with another version must be the source.
func (p *Policy) modeFor(skew int) mode {
	switch {
	case skew == 0:
		return decoded
	case p.cfg.Resources != nil && -maxSkew <= skew && skew <= maxSkew:
		return verbatim
	}
	return passing
}

// ChooseMode decides how built-in resources are answered, and sets the tier to that.
func (p *Policy) ChooseMode(tier *tiermount.ReadTier) {
	p.skew = p.cfg.Upstream.Skew()
	p.mode = p.modeFor(p.skew)
	tier.Skew = &read.Skew{Differs: func() bool { return p.cfg.Upstream.Skew() != 0 }, WatchLists: p.hasWatchLists}
	theirs := p.cfg.Upstream.Version()
	switch p.mode {
	case passing:
		p.cfg.Logger.Warn("The upstream is of another minor version: reads of built-in resources are passed on to it, and only custom resources are answered here; use a build with the upstream's version, or one at most three minor versions from it without --etcd-servers",
			"upstream", theirs, "builtIn", p.cfg.OwnVersion)
	case verbatim:
		p.cfg.Logger.Warn("The upstream is of another minor version: built-in resources are answered as it sends them, and tables and metadata are passed on to it; use a build with the upstream's version for these",
			"upstream", theirs, "builtIn", p.cfg.OwnVersion)
		tier.Decorator.Verbatim, tier.Decorator.Protobuf, tier.Verbatim = true, p.cfg.Resources.ProtobufBackend, p.verbatimOf
	}
}

// IsVerbatim reports whether built-in resources are answered as the upstream sends them.
func (p *Policy) IsVerbatim() bool { return p.mode == verbatim }

// answersBuiltIn reports whether built-in resources are answered here now.
func (p *Policy) answersBuiltIn() bool {
	mode := p.modeFor(p.cfg.Upstream.Skew())
	return mode == p.mode && mode != passing || p.mode == verbatim && mode == decoded
}

// Skew returns the Skew of a serverreport.ReplicaReport.
func (p *Policy) Skew() string {
	switch {
	case !p.answersBuiltIn():
		return "version skew: built-in resources are passed on"
	case p.mode == verbatim:
		return "version skew: served as the upstream sends it"
	}
	return ""
}

// lookAtVersion acts on a change of the upstream's minor version.
//
//	         another version                       too far
//	decoded ─────────────────► Restart    verbatim ───────────► reads are passed on
//	                                        │ another version: all is loaded again
//	verbatim, passing ── a better mode is possible for settledUpgrade ──► Restart
//
// Decoded objects would lose the fields that only the upstream knows, so that mode ends
// immediately. Verbatim objects may be of any version: objects that were loaded from the
// former version are dropped.
func (p *Policy) lookAtVersion(now time.Time) {
	skew := p.cfg.Upstream.Skew()
	if skew != p.skew {
		p.skew, p.skewSince = skew, now
		if p.mode == verbatim && p.answersBuiltIn() {
			p.cfg.Resources.outdateBuiltIn()
		}
	}
	wanted := p.modeFor(skew)
	if wanted == p.mode || p.restarting {
		return
	}
	if p.mode == decoded || wanted < p.mode && now.Sub(p.skewSince) > settledUpgrade {
		p.restarting = true
		p.cfg.Restart(fmt.Errorf("the upstream is of version %s now", p.cfg.Upstream.Version()))
	}
}
