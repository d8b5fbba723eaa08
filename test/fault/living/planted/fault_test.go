package planted

import "github.com/millrace/millrace/test/support/plantedfault"

const (
	policyFile    = "internal/replica/follow/policy.go"
	modeFile      = "internal/replica/follow/mode.go"
	admissionFile = "internal/replica/follow/admission.go"
	giveUpFile    = "internal/replica/follow/giveup.go"
	clusterFile   = "internal/replica/follow/same_cluster.go"
	upstreamFile  = "internal/replica/upstream/upstream.go"
	replicaFile   = "internal/replica/replica.go"
	turnsFile     = "internal/replica/right/turns.go"
	historyFile   = "internal/feed/apifeed/history.go"
	runFile       = "internal/feed/apifeed/run.go"
	watchFile     = "internal/feed/apifeed/watch.go"
	requestFile   = "internal/feed/apifeed/request.go"
)

// otherObject matches findings of package living about the content of objects.
const otherObject = "another object than the upstream's|not what the upstream lists at the end"

// living is a run of TestLiving with the replicas of some feeds.
func living(feeds string) finder {
	return finder{"test/fault/living", "^TestLiving$", "MILLRACE_LIVING_SCRIPTS=3 MILLRACE_LIVING_STEPS=8 MILLRACE_LIVING_CLIENTS=6 MILLRACE_LIVING_FEEDS=" + feeds}
}

// disturbed is a run of TestDisturbed with disturbances of some kinds.
func disturbed(feeds, kinds string) finder {
	return finder{"test/fault/living", "^TestDisturbed$", "MILLRACE_LIVING_DISTURBED=1 MILLRACE_LIVING_STEPS=20 MILLRACE_LIVING_CLIENTS=6 MILLRACE_LIVING_FEEDS=" + feeds + " MILLRACE_LIVING_DISTURBANCES=" + kinds}
}

// inPackage is a run of a test of one package.
func inPackage(pkg, test string) finder { return finder{pkg, "^" + test + "$", ""} }

// notOutdated has nobody told of definitions that change.
var notOutdated = plantedfault.Edit{File: replicaFile, Old: "\t\tcustom.Outdated = r.resources.Outdated\n", New: ""}

// seen are the faults that package living sees.
var seen = []row{
	{plantedfault.Fault{
		Name:   "version-of-first-read",
		Breaks: "a custom resource is followed in the version that was read first, and all versions are answered from it",
		Edits: []plantedfault.Edit{
			{File: policyFile, Old: "\tpreferred := p.server.CustomVersion(gr)\n\tfollowed, why", New: "\tpreferred := gvr.Version\n\t_, why"},
			{File: policyFile, Old: `	if why == "" && preferred != gvr.Version && !p.server.HaveSameSchema(gr, preferred, gvr.Version) {
		return handler.OtherVersion
	}
	if why == "" && followed.Version != "" && followed.Version != preferred {
		return handler.OtherVersion // the definition has just changed
	}
`},
			{File: policyFile, Old: `	if v := p.server.CustomVersion(key.GroupResource); v != "" {
`, New: `	if f := p.cfg.Resources.lookup(key); f != nil && f.request.Custom {
		_ = p.Follow(f.request.GroupVersionResource)
		return
	}
	if v := p.server.CustomVersion(key.GroupResource); v != "" {
`},
		},
	}, living("api"), otherObject},
	{plantedfault.Fault{
		Name:   "other-bytes-other-history",
		Breaks: "an object that is sent with another default is taken for another history, and the replica ends",
		Edits: []plantedfault.Edit{
			notOutdated,
			{File: historyFile, Old: `("%w: %s at revision %d", errSentOtherwise, o.Key`, New: `("%w: %s at revision %d", feed.ErrWentBack, o.Key`},
		},
	}, living("api"), "process has ended|connection refused"},
	{plantedfault.Fault{
		Name:   "definition-unnoticed",
		Breaks: "defaults and pruning that are in the bytes outlive the definition that made them",
		Edits:  []plantedfault.Edit{notOutdated},
	}, living("millrace"), otherObject},
	{plantedfault.Fault{
		Name:   "emulation-unread",
		Breaks: "objects of an upstream that emulates an older version get the defaults of this program's feature gates",
		Edits: []plantedfault.Edit{
			{File: upstreamFile, Old: `	if v.EmulationMinor != "" {`, New: `	if false {`},
			{File: upstreamFile, Old: `	if v.EmulationMinor == "" || v.EmulationMinor == v.Minor {`, New: `	if true {`},
		},
	}, disturbed("api", "version"), otherObject},
	{plantedfault.Fault{
		Name:   "standing-still-unnoticed",
		Breaks: "a watch whose server stands still, and sends bookmarks, is believed",
		Edits:  []plantedfault.Edit{{File: runFile, Old: "\thelpers.Go(func() { f.watchMovement(ctx) })\n"}},
	}, finder{"test/fault/living", "^TestStillServer$", "MILLRACE_LIVING_DISTURBED=1"}, "watch that is silent"},
	{plantedfault.Fault{
		Name:   "names-unescaped",
		Breaks: "an object whose name has a character of selectors keeps its feed from resuming",
		Edits: []plantedfault.Edit{
			{File: historyFile, Old: "\treturn fields.OneTermEqualSelector(\"metadata.name\", name).String()\n", New: "\treturn fields.Everything().String() + \"metadata.name=\" + name\n"},
			{File: historyFile, Old: "\t\treturn fmt.Errorf(\"%w: %w\", errUnasked, refusal)\n", New: "\t\treturn refusal\n"},
		},
	}, disturbed("api", "kill"), "kept from a request that it must not make"},
}

// unseen are those that clients of a changing upstream do not see.
var unseen = []row{
	{plantedfault.Fault{
		Name:   "other-minor-unnoticed",
		Breaks: "open watches of decoded objects go on when the upstream becomes another minor version",
		Edits: []plantedfault.Edit{
			{File: admissionFile, Old: "p.mode == decoded && skew != 0", New: "p.mode == passing && skew != 0"},
			{File: modeFile, Old: "	if p.mode == decoded || wanted < p.mode &&", New: "	if wanted < p.mode &&"},
		},
	}, inPackage("test/whole/replica", "TestUpgradedUpstream"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "stale-is-proof",
		Breaks: "an answer of bounded staleness proves the freshness of the replica behind",
		Edits: []plantedfault.Edit{
			{File: requestFile, Old: `	if age := resp.Header.Get(staleHeader); age != "" {`, New: `	if age := ""; age != "" {`},
		},
	}, inPackage("internal/feed/apifeed", "TestStale"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "never-given-up",
		Breaks: "a feed that is broken for good leaves its watches silent",
		Edits:  []plantedfault.Edit{{File: giveUpFile, Old: "\t\treturn !away && !since.IsZero() && now.Sub(since) > maxBroken\n", New: "\t\treturn away && !since.IsZero() && now.Sub(since) > maxBroken\n"}},
	}, inPackage("internal/replica/follow", "TestSilentResourceIsGivenUp"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "answer-awaited-for-ever",
		Breaks: "a request that gets no answer holds the feed for ever",
		Edits:  []plantedfault.Edit{{File: requestFile, Old: "\tanswerTimeout = 30 * time.Second\n", New: "\tanswerTimeout = 10000 * time.Hour\n"}},
	}, inPackage("internal/feed/apifeed", "TestNoAnswer"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "not-permitted-is-loading",
		Breaks: "watches of what the replica may not list are cut short for ever",
		Edits: []plantedfault.Edit{
			{File: giveUpFile, Old: "\t\tcase !away && isRefused(f.currentFeed()) && f.backend.Cache.Ready() != nil:\n", New: "\t\tcase away && isRefused(f.currentFeed()) && f.backend.Cache.Ready() != nil:\n"},
		},
	}, inPackage("internal/replica/follow", "TestUnservableResource"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "etcd-not-compared",
		Breaks: "another etcd than the upstream's is answered from",
		Edits: []plantedfault.Edit{
			{File: clusterFile, Old: "\tif p.cfg.Resources != nil {\n\t\treturn nil\n\t}\n\terr := repeat", New: "\tif true {\n\t\treturn nil\n\t}\n\terr := repeat"},
			{File: policyFile, Old: "\tcase p.cfg.Resources == nil && !p.etcd.isSame(stored):\n\t\treturn handler.OtherEtcd\n"},
		},
	}, inPackage("test/whole/replica", "(TestAnotherEtcd|TestForgottenOverride)"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "memory-unbounded",
		Breaks: "whoever reads one object has the replica hold all objects of its resource",
		Edits:  []plantedfault.Edit{{File: giveUpFile, Old: "\treturn s.cfg.MaxBytes > 0 && s.heldLocked() >= s.cfg.MaxBytes\n", New: "\treturn false\n"}},
	}, inPackage("test/fault/attacks", "TestViewerCannotFillMemory"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "watches-in-step",
		Breaks: "the watches of all feeds end in one second",
		Edits:  []plantedfault.Edit{{File: watchFile, Old: "minWatchTime + rand.N(maxWatchTime-minWatchTime)", New: "maxWatchTime - rand.N(time.Nanosecond)"}},
	}, inPackage("internal/feed/apifeed", "TestWatchTimes"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "loads-at-once",
		Breaks: "all feeds load at once",
		Edits:  []plantedfault.Edit{{File: runFile, Old: "\tif f.cfg.LoadSemaphore == nil {\n", New: "\tif true {\n"}},
	}, inPackage("internal/feed/apifeed", "TestLoadsAreBounded"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "reviews-at-once",
		Breaks: "the upstream is asked about all agents at once when a replica starts",
		Edits:  []plantedfault.Edit{{File: turnsFile, Old: "\tif t.mu.inFlight < t.cfg.inFlight && f.inFlight < t.cfg.share {\n", New: "\tif t.mu.inFlight >= 0 {\n"}},
	}, inPackage("internal/replica/right", "TestFleetBegins"), "--- FAIL: "},
	{plantedfault.Fault{
		Name:   "events-of-one-group",
		Breaks: "what is excluded in one group is followed and answered in another one that has the same objects",
		Edits: []plantedfault.Edit{
			{File: policyFile, Old: "\tcase p.Excludes(stored):\n", New: "\tcase p.Excludes(gvr.GroupResource()):\n"},
			{File: policyFile, Old: "\tcase p.keepsOut(stored):\n", New: "\tcase p.keepsOut(gvr.GroupResource()):\n"},
		},
	}, inPackage("test/whole/replica", "TestExcludedInBothGroups"), "--- FAIL: "},
}
