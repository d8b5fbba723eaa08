package usage

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// Advice is given for what costs enough to matter. Each sentence says what is seen
// and what to do; docs/lists.md tells more of each.

const (
	// worthCPU of a processor, or worthBytes a second, are worth advice.
	worthCPU   = 0.01
	worthBytes = 1 << 20
	// polls LISTs, or pollsOfOne GETs, from one address are a habit.
	polls      = 5
	pollsOfOne = 300
	// A list of manyObjects, or an answer of largeAnswer bytes, is large; one of
	// hugeAnswer is more than a client should take at once.
	manyObjects = 500
	largeAnswer = 4 << 20
	hugeAnswer  = 32 << 20
	// wasted objects are looked at for one that is selected.
	wasted = 10
	// smallLimit is a limit that keeps a scan from being worth an index.
	smallLimit = 512
	// largeObject is one whose metadata are a small part of it.
	largeObject = 2 << 10
	// slow answers take so many seconds, and slowness times what they take of a
	// processor.
	slow     = 2
	slowness = 5
)

// asked is a shape as somebody asks for it.
type asked struct {
	*report.Shape
	// mean is what one request costs. Its Requests are 1.
	mean meanCost
	// who sent so many requests, from about so many addresses, in span.
	who       string
	requests  uint64
	addresses float64
	span      time.Duration
}

type meanCost struct{ objects, scanned, bytes, cpu, seconds float64 }

func meanOf(c *report.ListCost) meanCost {
	n := float64(c.Requests)
	return meanCost{objects: float64(c.Objects) / n, scanned: float64(c.Scanned) / n, bytes: float64(c.Bytes) / n, cpu: c.CPU / n, seconds: c.Seconds / n}
}

// spans are how long accounts and partners tell of.
type spans struct{ accounts, partners time.Duration }

func spansOf(now, began time.Time) spans {
	up := max(now.Sub(began), time.Minute)
	return spans{
		accounts: min(up, windowMinutes*time.Minute),
		partners: min(up, halfWindow+now.Sub(now.Truncate(halfWindow))),
	}
}

func worth(cpu, bytes float64, span time.Duration) bool {
	return cpu >= worthCPU*span.Seconds() || bytes >= worthBytes*span.Seconds()
}

// adviseShape is about all who ask for a shape; it names who asks most.
func adviseShape(s *summary[report.Shape, report.Client], spans spans) []string {
	if !worth(s.cost.CPU, float64(s.cost.Bytes), spans.accounts) || len(s.partners) == 0 {
		return nil
	}
	p := &s.partners[0]
	a := asked{Shape: s.key, mean: meanOf(&s.cost), who: p.key.Name(), requests: p.requests, addresses: p.addresses, span: spans.partners}
	return a.advice()
}

// adviseClient is about the most expensive shape of a client. costs are of shapes.
func adviseClient(c *summary[report.Client, report.Shape], costs map[report.Shape]report.ListCost, spans spans) []string {
	if len(c.partners) == 0 {
		return nil
	}
	p := &c.partners[0]
	cost, ok := costs[*p.key]
	if !ok {
		return nil
	}
	a := asked{Shape: p.key, mean: meanOf(&cost), who: c.key.Name(), requests: p.requests, addresses: p.addresses, span: spans.partners}
	if !worth(p.cpu, a.mean.bytes*float64(p.requests), spans.partners) {
		return nil
	}
	return a.advice()
}

// advice are the sentences that fit, the most useful first.
func (a *asked) advice() []string {
	var all []string
	for _, one := range []func() string{a.passedOn, a.polling, a.namespace, a.scan, a.protobuf, a.compression, a.pages, a.metadata} {
		if sentence := one(); sentence != "" {
			all = append(all, sentence)
		}
	}
	return all
}

func (a *asked) list() bool { return a.Verb == "list" }

// fresh is the Revision of lists that somebody begins anew.
func (a *asked) fresh() bool {
	return a.Revision == report.RevisionUnset || a.Revision == report.RevisionAny
}

// polling is about one client that asks again and again.
func (a *asked) polling() string {
	each := float64(a.requests) / math.Max(1, math.Round(a.addresses))
	if !a.fresh() || math.IsInf(a.addresses, 1) || each < polls || !a.list() && each < pollsOfOne {
		return ""
	}
	minutes := max(1, int(math.Round(a.span.Minutes())))
	seen := fmt.Sprintf("%s sent %d GETs of %s in %d min", a.who, a.requests, a.Resource, minutes)
	do := "read them from an informer, which watches, instead"
	if a.list() {
		seen = fmt.Sprintf("%s sent %d LISTs alike of %s in %d min", a.who, a.requests, a.Resource, minutes)
		do = "use an informer, a watch or a watch-list (sendInitialEvents=true) instead: that sends what changes"
	}
	if a.Revision == report.RevisionUnset {
		do += "; as long as it polls, resourceVersion=0 spares each request a question to etcd, if an answer may be a moment old"
	}
	return seen + ": " + do + "."
}

const namespaceField = "metadata.namespace"

func (a *asked) namespace() string {
	if !a.list() || a.Scope != report.ScopeCluster || !slices.Contains(a.SelectorKeys("fields"), namespaceField) {
		return ""
	}
	resource, _, _ := strings.Cut(a.Resource, ".")
	return fmt.Sprintf("List …/namespaces/NAME/%s instead of selecting the field %s: the answer is the same, no object has to be asked, and no right to list other namespaces is needed.", resource, namespaceField)
}

// scan is about selectors that no index serves.
func (a *asked) scan() string {
	selectors := a.selective()
	if a.Path != "scan" || selectors == "" || a.mean.scanned < manyObjects || a.mean.scanned < wasted*a.mean.objects {
		return ""
	}
	do := "a requirement of a value (=, in) or of a label's presence gets an index by itself after two such lists: add one that most objects do not meet"
	if a.Limit > 0 && a.Limit < smallLimit {
		do = fmt.Sprintf("lists with a limit below %d do not make the server learn an index: leave the limit out, or list once without it every few minutes", smallLimit)
	}
	return fmt.Sprintf("No index serves the selector (%s): a list looks at %.0f objects and returns %.0f; %s.", selectors, a.mean.scanned, a.mean.objects, do)
}

// selective are the selectors but for the namespace's.
func (a *asked) selective() string {
	return report.FormatSelectors(a.SelectorKeys("labels"), slices.DeleteFunc(a.SelectorKeys("fields"), func(key string) bool { return key == namespaceField }))
}

// plain reports whether the answer is JSON of whole objects, as it is.
func (a *asked) plain() bool { return a.Encoding == "json" }

func (a *asked) protobuf() string {
	if form, _, _ := strings.Cut(a.Encoding, " "); form != "json" || !builtIn(a.Resource) || a.mean.bytes < largeAnswer {
		return ""
	}
	return fmt.Sprintf("Ask for protobuf (Accept: application/vnd.kubernetes.protobuf; in client-go rest.Config.ContentType): %s are built in, and their protobuf is smaller than JSON and cheaper to decode.", a.Resource)
}

// compression is about answers that wait for their client.
func (a *asked) compression() string {
	if strings.HasSuffix(a.Encoding, " gzip") || strings.HasSuffix(a.Encoding, " zstd") || a.mean.bytes < largeAnswer ||
		a.mean.seconds < slow || a.mean.seconds < slowness*a.mean.cpu {
		return ""
	}
	return fmt.Sprintf("Accept gzip (in client-go leave rest.Config.DisableCompression false): answers of %.0f MB take %.1f s, %.1f s of it waiting for etcd or the client; compressed they are several times smaller.",
		a.mean.bytes/1e6, a.mean.seconds, a.mean.seconds-a.mean.cpu)
}

func (a *asked) pages() string {
	if !a.list() || a.Limit > 0 || a.Revision != report.RevisionUnset || !a.plain() || a.mean.bytes < hugeAnswer {
		return ""
	}
	return fmt.Sprintf("List in pages (limit=500 and continue): an answer has %.0f MB, which the client has to hold at once.", a.mean.bytes/1e6)
}

func (a *asked) metadata() string {
	form, _, _ := strings.Cut(a.Encoding, " ")
	if !a.list() || a.Path == report.PathPassedOn || form != "json" && form != "protobuf" || a.mean.objects < manyObjects ||
		a.mean.bytes < largeAnswer || a.mean.bytes < largeObject*a.mean.objects {
		return ""
	}
	return "If only names, labels, annotations or owners are read, ask for metadata (PartialObjectMetadataList; in client-go the metadata client): it is a small part of these objects."
}

// builtIn reports whether a resource is Kubernetes' own, which alone has protobuf.
func builtIn(resource string) bool {
	_, group, _ := strings.Cut(resource, ".")
	return builtInGroups[group]
}

var builtInGroups = map[string]bool{
	"": true, "apps": true, "autoscaling": true, "batch": true, "policy": true,
	"admissionregistration.k8s.io": true, "apiextensions.k8s.io": true, "apiregistration.k8s.io": true, "certificates.k8s.io": true,
	"coordination.k8s.io": true, "discovery.k8s.io": true, "events.k8s.io": true, "flowcontrol.apiserver.k8s.io": true,
	"internal.apiserver.k8s.io": true, "networking.k8s.io": true, "node.k8s.io": true, "rbac.authorization.k8s.io": true,
	"resource.k8s.io": true, "scheduling.k8s.io": true, "storage.k8s.io": true, "storagemigration.k8s.io": true,
}
