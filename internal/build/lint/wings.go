package lint

// Wing is one of the parts that the tree below internal is divided into.
type Wing struct {
	Name string
	// Sentence says what the wing is for. docs/ARCHITECTURE.md has the same sentence.
	Sentence string
	// Imports are the names of the other wings that its packages may import.
	Imports []string
	// Order lists the packages of the wing, each by its path below internal. A package may
	// import the packages before it, and none after it.
	Order []string
}

// wings returns all wings. Each may import some of the wings before it, and none after
// it.
func wings() []Wing { return append(serverWings(), toolWings()...) }

// serverWings returns the wings that servers are made of.
func serverWings() []Wing {
	return []Wing{
		{
			Name: "wire", Sentence: "An object as bytes: stored, sent, encoded, compressed, as a table row.",
			Order: []string{"wire/storedjson", "wire/sentobject", "wire/watchevent", "wire/deflate", "wire/entry", "wire/tablerow", "wire/transcode", "wire/encode"},
		},
		{
			Name: "conn", Sentence: "Connections at both ends, and the credentials for them. Knows nothing of objects.",
			Order: []string{"conn/datadir", "conn/kubeconfig", "conn/growstack", "conn/pull", "conn/h1", "conn/h2", "conn/watchclient"},
		},
		{
			Name: "account", Sentence: "What it costs whom: time stamps of events, accounts of requests, and the reports that show them.",
			Imports: []string{"wire"},
			Order:   []string{"account/serverreport", "account/cputime", "account/slo", "account/distinct", "account/usage", "account/panics", "account/ratelimit", "account/dashboard", "account/dashboard/fake"},
		},
		{
			Name: "feed", Sentence: "Where objects come from: etcd, or another API server.",
			Imports: []string{"wire", "account"},
			Order:   []string{"feed", "feed/feedtest", "feed/etcdserver", "feed/etcdserver/etcdtest", "feed/etcdfeed", "feed/apifeed"},
		},
		{
			Name: "tier", Sentence: "The read tier: what is held in memory, and GET, LIST and WATCH answered from it.",
			Imports: []string{"wire", "conn", "account", "feed"},
			Order:   []string{"tier/lifetime", "tier/rounds", "tier/memory", "tier/cache", "tier/checkpoint", "tier/scrub", "tier/watch", "tier/read", "tier/storage", "tier/source"},
		},
		{
			Name: "apiserver", Sentence: "Kubernetes' API server in this process, and what stands in the place of its parts.",
			Imports: []string{"wire", "conn", "account", "feed", "tier"},
			Order:   []string{"apiserver/crd/definitiontest", "apiserver/crd/definitioncodec", "apiserver/crd", "apiserver/discovery", "apiserver/openapi/publish", "apiserver/openapi", "apiserver/kube", "apiserver/tiermount", "apiserver/program"},
		},
		{
			Name: "replica", Sentence: "`millrace replica`: reads in front of another API server.",
			Imports: []string{"wire", "conn", "account", "feed", "tier", "apiserver"},
			Order:   []string{"replica/upstream", "replica/right", "replica/document", "replica/share", "replica/handler", "replica/follow", "replica"},
		},
		{
			Name: "serve", Sentence: "`millrace serve`: a server over etcd.",
			Imports: []string{"wire", "conn", "account", "feed", "tier", "apiserver"},
			Order:   []string{"serve/peers", "serve"},
		},
	}
}

// toolWings returns the wings of the other commands, and of what no server needs.
func toolWings() []Wing {
	return []Wing{
		{
			Name: "tool", Sentence: "What a person runs against any API server, and what these commands share.",
			Imports: []string{"wire", "conn", "account"},
			Order: []string{
				"tool/interrupt", "tool/display", "tool/render", "tool/top", "tool/clusterprofile", "tool/agentprofile", "tool/verify/watchcheck", "tool/verify",
				"tool/auditlog", "tool/price", "tool/useragent", "tool/analyze", "tool/replay", "tool/model/simulation", "tool/model",
			},
		},
		{
			Name: "lab", Sentence: "What starts servers and loads them: synthetic clusters, hollow nodes, benchmarks.",
			Imports: []string{"wire", "conn", "account", "tool"},
			Order: []string{
				"lab/fill", "lab/hollow", "lab/bench/testbed", "lab/bench/floor", "lab/bench/load", "lab/bench/list", "lab/bench/watch", "lab/bench/crd",
				"lab/bench/discovery", "lab/bench/replica", "lab/bench/quiet", "lab/bench/servers", "lab/bench/storm", "lab/bench/provision", "lab/bench", "lab/papers",
			},
		},
		{
			Name: "cli", Sentence: "The command line: the only place where all wings meet.",
			Imports: []string{"conn", "feed", "apiserver", "replica", "serve", "tool", "lab"},
			Order:   []string{"cli", "cli/tools", "cli/lab", "cli/server"},
		},
		{
			Name: "build", Sentence: "Checks and tools of the source. No program links it.",
			Order: []string{"build/lint", "build/release", "build/release/cmd", "build/counterpart", "build/counterpart/cmd"},
		},
	}
}
