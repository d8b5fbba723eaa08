package lint

const (
	maxFileLines     = 420
	maxTestFileLines = 600
	maxFuncLines     = 60
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
		{Name: "storedjson", Apart: true},
		{Name: "resource"},
		{Name: "row"},
		{Name: "store"},
		{Name: "encode"},
		{Name: "cache"},
		{Name: "watch"},
		{Name: "read"},
		{Name: "storage"},
		{Name: "crd/definitiontest", Apart: true},
		{Name: "crd/definitioncodec", Apart: true, Except: []string{"storedjson", "crd/definitiontest"}},
		{Name: "crd"},
		{Name: "discovery"},
		{Name: "openapi/transcode"},
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

// upstream is the module that promises no stable interface, and upstreamUser
// the only package that may import it.
const (
	upstream     = "k8s.io/kubernetes"
	upstreamUser = "kube"
)

// bannedPaths are the starts of absolute paths which exist on one machine only.
// They are written in two parts so as not to be found here.
func bannedPaths() []string {
	return []string{"/wo" + "rk/", "/ro" + "ot/"}
}

// Exceptions maps a Finding's Key to the reason why it may stay.
type Exceptions map[string]string

// exceptions are the findings that are allowed, by rule. One that no longer
// applies is a finding itself.
func exceptions() map[string]Exceptions {
	return map[string]Exceptions{
		"file size":     {},
		"function size": {},
		"imports":       {},
		"places":        {},
		"upstream":      {},
		"package doc":   {},
		"output":        {},
		"sleep":         {},
		"paths":         {},
		"format":        {},
	}
}
