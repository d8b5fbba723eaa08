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
func order() []Place {
	return []Place{
		{Name: "lint", Apart: true},
		{Name: "datadir", Apart: true},
		{Name: "stack", Apart: true},
		{Name: "pull", Apart: true},
		{Name: "h1", Apart: true, Except: []string{"pull"}},
		{Name: "h2", Apart: true, Except: []string{"pull"}},
		{Name: "slo", Apart: true},
		{Name: "resource"},
		{Name: "row"},
		{Name: "store"},
		{Name: "encode"},
		{Name: "cache"},
		{Name: "watch"},
		{Name: "read"},
		{Name: "storage"},
		{Name: "crd"},
		{Name: "discovery"},
		{Name: "openapi"},
		{Name: "kube"},
		{Name: "dashboard"},
		{Name: "dashboard/fake"},
		{Name: "server"},
		{Name: "top", Apart: true, Except: []string{"datadir", "slo", "dashboard", "dashboard/fake"}},
		{Name: "fill", Apart: true},
		{Name: "bench", Apart: true, Except: []string{"store", "fill"}},
		{Name: "cli"},
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
		"bed", "feed", "king", "ring", "seed", "string", "testbed", "thing",
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
		"type names": {
			"internal/bench/crd_run.go:discovered":           "to be renamed with its package",
			"internal/bench/measuring.go:saved":              "to be renamed with its package",
			"internal/bench/measuring.go:measuring":          "to be renamed with its package",
			"internal/bench/render_sections.go:titled":       "to be renamed with its package",
			"internal/cache/index.go:learning":               "to be renamed with its package",
			"internal/cache/want.go:wanted":                  "to be renamed with its package",
			"internal/crd/catalog_test.go:heard":             "to be renamed with its package",
			"internal/crd/controller.go:known":               "to be renamed with its package",
			"internal/crd/conversion_review.go:reviewed":     "to be renamed with its package",
			"internal/crd/finalize.go:ending":                "to be renamed with its package",
			"internal/crd/lazy.go:negotiated":                "to be renamed with its package",
			"internal/crd/outline_test.go:seeing":            "to be renamed with its package",
			"internal/crd/remainder_test.go:counting":        "to be renamed with its package",
			"internal/crd/served.go:served":                  "to be renamed with its package",
			"internal/crd/server.go:kept":                    "to be renamed with its package",
			"internal/crd/shelf.go:shelved":                  "to be renamed with its package",
			"internal/crd/writing.go:writing":                "to be renamed with its package",
			"internal/dashboard/source.go:shared":            "to be renamed with its package",
			"internal/discovery/documents.go:dated":          "to be renamed with its package",
			"internal/discovery/form.go:negotiated":          "to be renamed with its package",
			"internal/discovery/resources.go:served":         "to be renamed with its package",
			"internal/encode/ahead.go:coming":                "to be renamed with its package",
			"internal/encode/flight.go:flown":                "to be renamed with its package",
			"internal/encode/packed.go:coding":               "to be renamed with its package",
			"internal/encode/stream_test.go:arrived":         "to be renamed with its package",
			"internal/encode/stream_test.go:failing":         "to be renamed with its package",
			"internal/fill/api_remove.go:listed":             "to be renamed with its package",
			"internal/fill/etcd_remove.go:stored":            "to be renamed with its package",
			"internal/h1/stream_test.go:served":              "to be renamed with its package",
			"internal/h1/stream_test.go:logged":              "to be renamed with its package",
			"internal/h2/closed_test.go:closing":             "to be renamed with its package",
			"internal/h2/pull_test.go:pulling":               "to be renamed with its package",
			"internal/h2/sent_test.go:told":                  "to be renamed with its package",
			"internal/h2/sent_test.go:sent":                  "to be renamed with its package",
			"internal/h2/sent_test.go:telling":               "to be renamed with its package",
			"internal/h2/setup_test.go:served":               "to be renamed with its package",
			"internal/h2/stream.go:incoming":                 "to be renamed with its package",
			"internal/h2/stream.go:outgoing":                 "to be renamed with its package",
			"internal/kube/authn_cache.go:verified":          "to be renamed with its package",
			"internal/kube/authn_cache_test.go:counted":      "to be renamed with its package",
			"internal/kube/handlers.go:untraced":             "to be renamed with its package",
			"internal/kube/openapi_test.go:fixed":            "to be renamed with its package",
			"internal/kube/quota_test.go:refusing":           "to be renamed with its package",
			"internal/kube/rows_test.go:printed":             "to be renamed with its package",
			"internal/kube/server.go:decorated":              "to be renamed with its package",
			"internal/kube/watch_chain_test.go:unlimited":    "to be renamed with its package",
			"internal/openapi/cache_test.go:counting":        "to be renamed with its package",
			"internal/openapi/fragments.go:kept":             "to be renamed with its package",
			"internal/openapi/fragments.go:making":           "to be renamed with its package",
			"internal/openapi/fragments.go:wanted":           "to be renamed with its package",
			"internal/openapi/generated_test.go:drawing":     "to be renamed with its package",
			"internal/openapi/server.go:dated":               "to be renamed with its package",
			"internal/openapi/split.go:occupied":             "to be renamed with its package",
			"internal/openapi/view.go:summing":               "to be renamed with its package",
			"internal/pull/conn_unix.go:held":                "to be renamed with its package",
			"internal/pull/stuck_test.go:panicking":          "to be renamed with its package",
			"internal/pull/workers_test.go:informing":        "to be renamed with its package",
			"internal/read/account.go:passing":               "to be renamed with its package",
			"internal/read/ending.go:ending":                 "to be renamed with its package",
			"internal/read/request.go:passed":                "to be renamed with its package",
			"internal/read/respond.go:paced":                 "to be renamed with its package",
			"internal/read/tier_test.go:gone":                "to be renamed with its package",
			"internal/read/watch.go:watching":                "to be renamed with its package",
			"internal/read/watch_account.go:measured":        "to be renamed with its package",
			"internal/read/watch_account_test.go:accounted":  "to be renamed with its package",
			"internal/read/watch_account_test.go:counting":   "to be renamed with its package",
			"internal/read/watch_pull.go:pulled":             "to be renamed with its package",
			"internal/read/watch_test.go:watched":            "to be renamed with its package",
			"internal/slo/advice.go:asked":                   "to be renamed with its package",
			"internal/slo/gather.go:gathered":                "to be renamed with its package",
			"internal/slo/probe.go:written":                  "to be renamed with its package",
			"internal/slo/sender.go:given":                   "to be renamed with its package",
			"internal/slo/slo.go:seen":                       "to be renamed with its package",
			"internal/slo/storm.go:gathering":                "to be renamed with its package",
			"internal/store/embedded.go:Embedded":            "to be renamed with its package",
			"internal/store/feed_history_test.go:compacting": "to be renamed with its package",
			"internal/store/feed_test.go:counting":           "to be renamed with its package",
			"internal/store/load.go:asked":                   "to be renamed with its package",
			"internal/top/screen.go:fetched":                 "to be renamed with its package",
			"internal/watch/subscription.go:meaning":         "to be renamed with its package",
			"test/attacks/attacker_test.go:done":             "to be renamed with its package",
			"test/crds/converted_test.go:converted":          "to be renamed with its package",
			"test/crds/converted_test.go:watching":           "to be renamed with its package",
			"test/crds/seen_test.go:tampering":               "to be renamed with its package",
			"test/differential/compacted_test.go:gone":       "to be renamed with its package",
			"test/differential/watch_test.go:running":        "to be renamed with its package",
			"test/history/split.go:beginning":                "to be renamed with its package",
			"test/informers/calls_test.go:counting":          "to be renamed with its package",
			"test/informers/runtime_cache_test.go:held":      "to be renamed with its package",
			"test/slo/sums_test.go:received":                 "to be renamed with its package",
			"test/slo/sums_test.go:counting":                 "to be renamed with its package",
			"test/slo/sums_test.go:summed":                   "to be renamed with its package",
		},
		"paragraphs": {
			"docs/ARCHITECTURE.md":   "being rewritten",
			"docs/bench/attacks.md":  "being rewritten",
			"docs/bench/crd.md":      "being rewritten",
			"docs/bench/list.md":     "being rewritten",
			"docs/bench/memory.md":   "being rewritten",
			"docs/bench/resident.md": "being rewritten",
			"docs/bench/watch.md":    "being rewritten",
			"docs/flow.md":           "being rewritten",
			"docs/guarantees.md":     "being rewritten",
			"docs/lists.md":          "being rewritten",
			"docs/slo.md":            "being rewritten",
		},
		"output": {},
		"sleep":  {},
		"paths":  {},
		"format": {},
	}
}
