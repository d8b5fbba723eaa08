package usage

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Thresholds of advice. docs/lists.md explains each sentence of advice.
const (
	// Requests get advice if they take at least worthCPU of a processor, or worthBytes a second.
	worthCPU   = 0.01
	worthBytes = 1 << 20
	// A client polls if each of its addresses sends, on average, minPolledLists LISTs or
	// minPolledGets GETs of one shape in requestPattern.period.
	minPolledLists = 5
	minPolledGets  = 300
	// A list of manyObjects is large, and so is an answer of largeAnswer bytes. A client
	// should not take hugeAnswer bytes in one answer.
	manyObjects = 500
	largeAnswer = 4 << 20
	hugeAnswer  = 32 << 20
	// A scan wastes time if it looks at minScannedRatio objects for each object that it
	// returns.
	minScannedRatio = 10
	// Scans with a limit below smallLimit do not make the cache build an index. smallLimit is the
	// default of cache.Config.IndexMinScan.
	smallLimit = 512
	// largeObject is the size from which metadata are a small part of an object.
	largeObject = 2 << 10
	// An answer is slow if it takes slowSeconds, and slowRatio times its CPU time.
	slowSeconds = 2
	slowRatio   = 5
)

// requestPattern is what advice is about: one shape as one client sends it.
type requestPattern struct {
	*serverreport.Shape
	// mean is the cost of one request of the shape, over all clients.
	mean meanCost
	// client names the client.
	client string
	// requests is how many requests of the shape the client sent in period.
	requests uint64
	// addresses estimates how many addresses these requests came from. It may be +Inf.
	addresses float64
	period    time.Duration
}

// meanCost is the mean cost of requests. cpu and seconds are in seconds.
type meanCost struct{ objects, scanned, bytes, cpu, seconds float64 }

// meanOf returns the mean cost of the requests of c, of which there must be some.
func meanOf(c *serverreport.ListCost) meanCost {
	n := float64(c.Requests)
	return meanCost{objects: float64(c.Objects) / n, scanned: float64(c.Scanned) / n, bytes: float64(c.Bytes) / n, cpu: c.CPU / n, seconds: c.Seconds / n}
}

// periods has how long the costs of accounts, and of their partners, were added up.
type periods struct{ accounts, partners time.Duration }

func periodsOf(now, began time.Time) periods {
	up := max(now.Sub(began), time.Minute)
	return periods{
		accounts: min(up, windowMinutes*time.Minute),
		partners: min(up, halfWindow+now.Sub(now.Truncate(halfWindow))),
	}
}

// worthAdvice reports whether requests of a period cost enough for advice.
func worthAdvice(cpu, bytes float64, period time.Duration) bool {
	return cpu >= worthCPU*period.Seconds() || bytes >= worthBytes*period.Seconds()
}

// adviseShape gives advice on all requests of a shape. It names the client whose requests took
// most CPU.
func adviseShape(s *summary[serverreport.Shape, serverreport.Client], over periods) []string {
	if !worthAdvice(s.cost.CPU, float64(s.cost.Bytes), over.accounts) || len(s.partners) == 0 {
		return nil
	}
	p := &s.partners[0]
	pattern := requestPattern{Shape: s.key, mean: meanOf(&s.cost), client: p.key.Name(), requests: p.requests, addresses: p.addresses, period: over.partners}
	return pattern.advice()
}

// adviseClient gives advice on the most expensive shape of a client. costs are by shape.
func adviseClient(c *summary[serverreport.Client, serverreport.Shape], costs map[serverreport.Shape]serverreport.ListCost, over periods) []string {
	if len(c.partners) == 0 {
		return nil
	}
	p := &c.partners[0]
	cost, ok := costs[*p.key]
	if !ok {
		return nil
	}
	pattern := requestPattern{Shape: p.key, mean: meanOf(&cost), client: c.key.Name(), requests: p.requests, addresses: p.addresses, period: over.partners}
	if !worthAdvice(p.cpu, pattern.mean.bytes*float64(p.requests), over.partners) {
		return nil
	}
	return pattern.advice()
}

// advice returns the sentences that fit, the most useful first. Each method that advice
// calls returns a sentence, or "" if the sentence does not fit.
func (p *requestPattern) advice() []string {
	var all []string
	for _, advise := range []func() string{p.passedOn, p.polling, p.namespace, p.unindexed, p.protobuf, p.compression, p.pages, p.metadata} {
		if sentence := advise(); sentence != "" {
			all = append(all, sentence)
		}
	}
	return all
}

func (p *requestPattern) isList() bool { return p.Verb == "list" }

// beginsAnew reports whether the request neither continues a list nor names a revision but 0.
func (p *requestPattern) beginsAnew() bool {
	return p.Revision == serverreport.RevisionUnset || p.Revision == serverreport.RevisionAny
}

// polling returns advice about a client that sends similar requests again and again.
func (p *requestPattern) polling() string {
	each := float64(p.requests) / math.Max(1, math.Round(p.addresses))
	if !p.beginsAnew() || math.IsInf(p.addresses, 1) || each < minPolledLists || !p.isList() && each < minPolledGets {
		return ""
	}
	minutes := max(1, int(math.Round(p.period.Minutes())))
	observed := fmt.Sprintf("%s sent %d GETs of %s in %d min", p.client, p.requests, p.Resource, minutes)
	remedy := "read them from an informer, which watches, instead"
	if p.isList() {
		observed = fmt.Sprintf("%s sent %d similar LISTs of %s in %d min", p.client, p.requests, p.Resource, minutes)
		remedy = "use an informer, a watch or a watch-list (sendInitialEvents=true) instead: that sends what changes"
	}
	if p.Revision == serverreport.RevisionUnset {
		remedy += "; as long as it polls, resourceVersion=0 saves each request a read of etcd, if an answer may be a moment old"
	}
	return observed + ": " + remedy + "."
}

const namespaceField = "metadata.namespace"

// namespace returns advice about a field selector that a path could replace.
func (p *requestPattern) namespace() string {
	if !p.isList() || p.Scope != serverreport.ScopeCluster || !slices.Contains(p.SelectorKeys("fields"), namespaceField) {
		return ""
	}
	resource, _, _ := strings.Cut(p.Resource, ".")
	return fmt.Sprintf("List …/namespaces/NAME/%s instead of selecting the field %s: the answer is the same, no object has to be examined, and no right to list other namespaces is needed.", resource, namespaceField)
}

// unindexed returns advice about selectors that no index serves.
func (p *requestPattern) unindexed() string {
	selectors := p.indexableSelectors()
	if p.Path != "scan" || selectors == "" || p.mean.scanned < manyObjects || p.mean.scanned < minScannedRatio*p.mean.objects {
		return ""
	}
	remedy := "a requirement of a value (=, in) or of a label's presence gets an index after two such lists: add one that few objects meet"
	if p.Limit > 0 && p.Limit < smallLimit {
		remedy = fmt.Sprintf("lists with a limit below %d do not make the server learn an index: leave the limit out, or list once without it every few minutes", smallLimit)
	}
	return fmt.Sprintf("No index serves the selector (%s): a list looks at %.0f objects and returns %.0f; %s.", selectors, p.mean.scanned, p.mean.objects, remedy)
}

// indexableSelectors returns the keys of labels and fields, without namespaceField.
func (p *requestPattern) indexableSelectors() string {
	return serverreport.FormatSelectors(p.SelectorKeys("labels"), slices.DeleteFunc(p.SelectorKeys("fields"), func(key string) bool { return key == namespaceField }))
}

// plainJSON reports whether answers are uncompressed JSON of whole objects.
func (p *requestPattern) plainJSON() bool { return p.Encoding == "json" }

// protobuf returns advice about large JSON of resources that have protobuf.
func (p *requestPattern) protobuf() string {
	if form, _, _ := strings.Cut(p.Encoding, " "); form != "json" || !builtIn(p.Resource) || p.mean.bytes < largeAnswer {
		return ""
	}
	return fmt.Sprintf("Ask for protobuf (Accept: application/vnd.kubernetes.protobuf; in client-go rest.Config.ContentType): %s are built in, and their protobuf is smaller than JSON and cheaper to decode.", p.Resource)
}

// compression returns advice about large answers that take long, mostly because they wait.
func (p *requestPattern) compression() string {
	if strings.HasSuffix(p.Encoding, " gzip") || strings.HasSuffix(p.Encoding, " zstd") || p.mean.bytes < largeAnswer ||
		p.mean.seconds < slowSeconds || p.mean.seconds < slowRatio*p.mean.cpu {
		return ""
	}
	return fmt.Sprintf("Accept gzip (in client-go leave rest.Config.DisableCompression false): answers of %.0f MB take %.1f s, %.1f s of it waiting for etcd or the client; compressed they are several times smaller.",
		p.mean.bytes/1e6, p.mean.seconds, p.mean.seconds-p.mean.cpu)
}

// pages returns advice about one answer that is too large for a client.
func (p *requestPattern) pages() string {
	if !p.isList() || p.Limit > 0 || p.Revision != serverreport.RevisionUnset || !p.plainJSON() || p.mean.bytes < hugeAnswer {
		return ""
	}
	return fmt.Sprintf("List in pages (limit=500 and continue): an answer has %.0f MB, all of which the client has to hold.", p.mean.bytes/1e6)
}

// metadata returns advice about whole objects where their metadata may be enough.
func (p *requestPattern) metadata() string {
	form, _, _ := strings.Cut(p.Encoding, " ")
	if !p.isList() || p.Path == serverreport.PathPassedOn || form != "json" && form != "protobuf" || p.mean.objects < manyObjects ||
		p.mean.bytes < largeAnswer || p.mean.bytes < largeObject*p.mean.objects {
		return ""
	}
	return "If only names, labels, annotations or owners are read, ask for metadata (PartialObjectMetadataList; in client-go the metadata client): it is a small part of these objects."
}

// builtIn reports whether a resource is one of Kubernetes. Custom resources have no protobuf. Of
// the resources of aggregated servers it is not known.
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
