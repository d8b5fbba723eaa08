package lint

const (
	maxFileLines     = 420
	maxTestFileLines = 600
	maxFuncLines     = 60
	// maxParagraphWords holds for documents. A longer paragraph is hard to read without
	// losing its beginning.
	maxParagraphWords = 80
)

// Place is a package's position among the internal packages.
type Place struct {
	// Name is the package's path below internal: "cache", or "bench/list" for a
	// nested package, which has a place of its own.
	Name string
	// Apart packages import none of the others but those in Except, each by its
	// Name. The order holds for these as well.
	Apart  bool
	Except []string
}

// order lists all internal packages. A package may import only those above it.
func order() []Place { return append(serverOrder(), toolOrder()...) }

// serverOrder lists the packages that servers are made of.
func serverOrder() []Place {
	return []Place{
		{Name: "lint", Apart: true},
		{Name: "mutation", Apart: true},
		{Name: "datadir", Apart: true},
		{Name: "interrupt", Apart: true},
		{Name: "kubeconfig", Apart: true, Except: []string{"datadir"}},
		{Name: "stack", Apart: true},
		{Name: "pull", Apart: true},
		{Name: "h1", Apart: true, Except: []string{"pull"}},
		{Name: "h2", Apart: true, Except: []string{"pull"}},
		{Name: "report", Apart: true},
		{Name: "slo", Apart: true, Except: []string{"report"}},
		{Name: "distinct", Apart: true},
		{Name: "usage", Apart: true, Except: []string{"distinct", "report"}},
		{Name: "storedjson", Apart: true},
		{Name: "sentobject", Apart: true, Except: []string{"storedjson"}},
		{Name: "deflate", Apart: true},
		{Name: "resource"},
		{Name: "row"},
		{Name: "transcode"},
		{Name: "store"},
		{Name: "apifeed"},
		{Name: "encode"},
		{Name: "cache"},
		{Name: "checkpoint"},
		{Name: "scrub"},
		{Name: "peers", Apart: true},
		{Name: "watch"},
		{Name: "read"},
		{Name: "storage"},
		{Name: "replica"},
		{Name: "crd/definitiontest", Apart: true},
		{Name: "crd/definitioncodec", Apart: true, Except: []string{"storedjson", "crd/definitiontest"}},
		{Name: "crd"},
		{Name: "discovery"},
		{Name: "openapi/publish"},
		{Name: "openapi"},
		{Name: "kube"},
		{Name: "dashboard"},
		{Name: "dashboard/fake"},
		{Name: "server"},
	}
}

// toolOrder lists the packages of the other commands and tools.
func toolOrder() []Place {
	return []Place{
		{Name: "display", Apart: true},
		{Name: "top", Apart: true, Except: []string{"interrupt", "kubeconfig", "report", "dashboard", "dashboard/fake", "display"}},
		{Name: "analyze/profile", Apart: true, Except: []string{"distinct"}},
		{Name: "fill", Apart: true, Except: []string{"analyze/profile", "interrupt", "kubeconfig", "display"}},
		{Name: "history", Apart: true},
		{Name: "verify", Apart: true, Except: []string{"interrupt", "kubeconfig", "history", "display"}},
		{Name: "kube/transcodetest"},
		{Name: "bench/render", Apart: true},
		{Name: "hollow/agentprofile", Apart: true},
		{Name: "hollow/wire", Apart: true},
		{Name: "hollow", Apart: true, Except: []string{"interrupt", "kubeconfig", "display", "bench/render", "hollow/agentprofile", "hollow/wire"}},
		{Name: "analyze/auditlog", Apart: true, Except: []string{"report"}},
		{Name: "analyze/price", Apart: true},
		{Name: "analyze/program", Apart: true, Except: []string{"analyze/price", "analyze/profile"}},
		{Name: "analyze", Apart: true, Except: []string{"interrupt", "kubeconfig", "distinct", "report", "display", "bench/render", "analyze/auditlog", "analyze/price", "analyze/profile", "analyze/program"}},
		{Name: "replay", Apart: true, Except: []string{"interrupt", "kubeconfig", "report", "display", "bench/render", "analyze/auditlog", "analyze/price", "analyze/profile", "analyze/program"}},
		{Name: "bench/testbed", Apart: true, Except: []string{"interrupt", "kubeconfig", "store", "display", "bench/render"}},
		{Name: "bench/floor", Apart: true, Except: []string{"interrupt", "bench/testbed"}},
		{Name: "bench/benchtest", Apart: true, Except: []string{"kubeconfig", "fill", "bench/render", "bench/testbed", "bench/floor"}},
		{Name: "bench/load", Apart: true, Except: []string{"bench/render", "bench/testbed", "bench/benchtest"}},
		{Name: "bench/list", Apart: true, Except: []string{"kubeconfig", "fill", "bench/render", "bench/testbed", "bench/floor", "bench/load", "bench/benchtest"}},
		{Name: "bench/watch", Apart: true, Except: []string{"kubeconfig", "fill", "bench/render", "bench/testbed", "bench/floor", "bench/benchtest"}},
		{Name: "bench/crd", Apart: true, Except: []string{"fill", "bench/render", "bench/testbed", "bench/benchtest"}},
		{Name: "bench/discovery", Apart: true, Except: []string{"fill", "bench/render", "bench/testbed", "bench/load", "bench/crd", "bench/benchtest"}},
		{Name: "bench/replica", Apart: true, Except: []string{"bench/render", "bench/testbed", "bench/benchtest"}},
		{Name: "bench/servers", Apart: true, Except: []string{"bench/render", "bench/testbed", "bench/benchtest"}},
		{Name: "bench/provision", Apart: true, Except: []string{"interrupt", "kubeconfig", "display", "bench/render", "bench/testbed", "bench/benchtest", "hollow", "hollow/wire"}},
		{Name: "bench", Apart: true, Except: []string{"kubeconfig", "bench/testbed", "bench/floor", "bench/list", "bench/watch", "bench/crd", "bench/discovery", "bench/replica", "bench/servers", "bench/provision"}},
		{Name: "model/simulation", Apart: true},
		{Name: "model", Apart: true, Except: []string{"display", "bench/render", "analyze/price", "analyze/profile", "hollow/agentprofile", "model/simulation"}},
		{Name: "papers", Apart: true, Except: []string{"interrupt", "kubeconfig", "fill", "display", "bench/render", "bench/testbed", "bench/benchtest", "bench"}},
		{Name: "cli"},
		{Name: "image", Apart: true},
		{Name: "image/cmd", Apart: true, Except: []string{"image"}},
		{Name: "upstream", Apart: true},
		{Name: "upstream/cmd", Apart: true, Except: []string{"upstream"}},
	}
}

const (
	// upstream is the module of Kubernetes, which promises no stable interface.
	upstream = "k8s.io/kubernetes"
	// upstreamUser is the only package that may import it, with those nested in it.
	upstreamUser = "kube"
)

// bannedPaths returns the beginnings of absolute paths that exist on one machine only.
// They are written in two parts, so that the rule does not find them here.
func bannedPaths() []string {
	return []string{"/wo" + "rk/", "/ro" + "ot/"}
}

// nounsLikeParticiples lists words that end as participles do and name things:
// nouns that have no verb, and gerunds that are the field's term for a thing.
func nounsLikeParticiples() []string {
	return []string{
		"bed", "feed", "king", "ring", "seed", "sibling", "string", "testbed", "thing",
		"encoding", "finding", "framing", "heading", "mapping", "packing", "setting",
	}
}

// irregularParticiples lists participles that have no ending in common. Words
// that are nouns as well, such as bound, cut and set, are left out.
func irregularParticiples() []string {
	return []string{
		"begun", "bent", "bought", "broken", "brought", "built", "caught", "chosen",
		"done", "drawn", "driven", "fallen", "felt", "flown", "forgotten", "fought",
		"found", "frozen", "given", "gone", "grown", "heard", "held", "hidden",
		"kept", "known", "laid", "led", "left", "lent", "lost", "made", "meant",
		"met", "overtaken", "paid", "said", "seen", "sent", "shown", "shut", "sold",
		"sought", "spent", "spoken", "stolen", "stuck", "sunk", "taken",
		"taught", "thought", "thrown", "told", "torn", "undone", "understood",
		"woken", "won", "worn", "written",
	}
}

// Exceptions maps the Key of a Finding to the reason why it may stay.
type Exceptions map[string]string

// exceptions returns the findings that are allowed, by rule. An exception without a
// finding fails the test as well.
func exceptions() map[string]Exceptions {
	return map[string]Exceptions{
		"file size":     {},
		"function size": {},
		"imports":       {},
		"places":        {},
		"upstream":      {},
		"package doc":   {},
		"type names":    {},
		"paragraphs":    {},
		"references":    {},
		"output":        {},
		"sleep":         {},
		"paths":         {},
		"format":        {},
	}
}
