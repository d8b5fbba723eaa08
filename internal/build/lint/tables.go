package lint

const (
	maxFileLines     = 420
	maxTestFileLines = 600
	maxFuncLines     = 60
	// maxParagraphWords holds for documents. A longer paragraph is hard to read without
	// losing its beginning.
	maxParagraphWords = 80
	// maxSentenceWords holds for comments. 25 words are the aim.
	maxSentenceWords = 30
)

const (
	// upstream is the module of Kubernetes, which promises no stable interface.
	upstream = "k8s.io/kubernetes"
	// wingsFile has the table of wings, and overviewFile shows it to readers.
	wingsFile    = "internal/build/lint/wings.go"
	overviewFile = "docs/ARCHITECTURE.md"
	// minReferences is the least number of names and paths of this tree that documents
	// have. If fewer are found, the rule has ceased to recognise them.
	minReferences = 400
)

// upstreamUsers returns the folders whose packages may import Kubernetes' module: the one
// that builds its server, and tests that compare with its decoders.
func upstreamUsers() []string {
	return []string{"internal/apiserver/kube", "test/equal/transcode", "test/equal/differential", "test/equal/conformance/suite"}
}

// bannedPaths returns the beginnings of absolute paths that exist on one machine only. Each is
// written in two parts, so that the rule does not find it here.
func bannedPaths() []string {
	return []string{"/wo" + "rk/", "/ro" + "ot/"}
}

// nounsLikeParticiples lists words that end as participles do and name things. They are nouns
// that have no verb, and gerunds that are the field's term for a thing.
func nounsLikeParticiples() []string {
	return []string{
		"bed", "feed", "king", "ring", "seed", "sibling", "string", "testbed", "thing", "wing",
		"binding", "encoding", "finding", "framing", "heading", "mapping", "meaning",
		"packing", "padding", "setting", "warning",
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

// prepositions lists words that are no name of a function. Words that are verbs or nouns as
// well, such as round, are left out.
func prepositions() []string {
	return []string{
		"after", "around", "as", "at", "before", "behind", "below", "beside", "between", "by",
		"during", "from", "in", "instead", "into", "near", "of", "on", "over", "since",
		"through", "to", "under", "until", "with", "within", "without",
	}
}

// older returns folders that were written before a rule, as its exceptions. The lists only become
// shorter: a folder that has been mended comes off.
func older(folders ...string) Exceptions {
	exceptions := Exceptions{}
	for _, folder := range folders {
		exceptions[folder] = "it is older than the rule"
	}
	return exceptions
}

// exceptions returns the findings that are allowed, by rule. An exception without a
// finding fails the test as well.
func exceptions() map[string]Exceptions {
	return map[string]Exceptions{
		"file size":         {},
		"function size":     {},
		"imports":           {},
		"import groups":     {},
		"wings":             {},
		"upstream":          {},
		"package doc":       {},
		"type names":        {},
		"case names":        {},
		"sentences":         older("test"),
		"behind":            older("test"),
		"causatives":        older("test"),
		"none":              {},
		"pronouns":          {},
		"doc names":         {},
		"function docs":     {},
		"preposition names": {},
		"participle names": older("internal/account", "internal/apiserver", "internal/feed",
			"internal/replica", "internal/serve", "internal/tier", "internal/wire"),
		"parameter names": {},
		"progress names":  {},
		"paragraphs":      {},
		"references":      {},
		"output":          {},
		"sleep":           {},
		"paths":           {},
		"format":          {},
	}
}
