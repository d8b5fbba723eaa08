package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// Finding is a habit of a client that costs more than necessary.
type Finding struct {
	// Kind is a word to search for, as in "polling". docs/guides/analyze.md explains each.
	Kind string `json:"kind"`
	serverreport.Client
	Resource string `json:"resource"`
	Fleet    int    `json:"fleet"`
	// FurtherCollections have the same habit, and the same repair ends it.
	FurtherCollections []string `json:"also,omitempty"`
	// Repair says in a few words what the client should do. Sentence says what the client does.
	// Why says what the habit costs.
	Repair   string `json:"repair"`
	Sentence string `json:"sentence"`
	Why      string `json:"why"`
	// Request is an example of the requests. Instead is the request that should replace it, "" if
	// no request should. Setting is what to change in the client.
	Request string `json:"request"`
	Instead string `json:"instead,omitempty"`
	Setting string `json:"setting"`
	// Cost is the cost of all requests of the finding. SavedCPU, in seconds, and SavedBytes are
	// what the repair saves of Cost.
	Cost       Cost    `json:"cost"`
	SavedCPU   float64 `json:"savedCPU"`
	SavedBytes float64 `json:"savedBytes"`
	// FlowSchema is the YAML of a FlowSchema and a PriorityLevelConfiguration that bound the
	// client until it is repaired. It is "" for a client that must not be bounded.
	FlowSchema string `json:"flowSchema,omitempty"`

	source     string // of the objects: "cache", "etcd" or both
	collection string // name of the collection in sentences
	shapeCount int    // of the rows that the finding sums
	watches    watchSums
}

// watchSums has sums over the rows of a finding on watches.
type watchSums struct {
	started, ended, gone uint64
	// seconds is the sum of the durations of watches that ended.
	seconds float64
	// startCPU is the CPU of the starts of the watches, in seconds.
	startCPU float64
	// relists counts LISTs of the same collection, without the first LIST of each instance.
	relists float64
}

func (w *watchSums) add(x *watchSums) {
	w.started += x.started
	w.ended += x.ended
	w.gone += x.gone
	w.seconds += x.seconds
	w.startCPU += x.startCPU
	w.relists += x.relists
}

// Values of Finding.Kind.
const (
	kindPolling       = "polling"
	kindRelistLoop    = "relist-loop"
	kindLimitIgnored  = "limit-ignored"
	kindRevisionUnset = "revision-unset"
	kindNamespace     = "namespace-selector"
	kindAllNamespaces = "all-namespaces"
	kindNoBookmarks   = "no-bookmarks"
	kindShortWatches  = "short-watches"
	kindJSON          = "json"
)

// Thresholds of findings. docs/guides/analyze.md explains them.
const (
	// A finding must save worthwhileCPU processors, or minCPU processors that are
	// worthwhileFraction of all CPU.
	worthwhileCPU      = 0.001
	worthwhileFraction = 0.005
	minCPU             = 0.0001
	// An instance polls if it sends this number of LISTs, and this number per hour.
	polledLists       = 5
	polledListsHourly = 2
	// A user of kubectl sends fewer requests per hour by hand. Scripts send more.
	kubectlHourly = 60
	// GETs of a single object are common: an instance polls from this number and rate on.
	polledGets          = 300
	polledGetsPerSecond = 0.2
	// An instance that watches also sends a LIST after a restart, and now and then after an error.
	// More LISTs are a loop.
	relists       = 4
	relistsHourly = 4
	// Requests without a resource version count from this number and rate on.
	unsetRequests = 20
	unsetHourly   = 36
	// A watch is short if it lasts at most shortWatchSeconds. The advice is to let it last
	// longWatchSeconds or more.
	shortWatchSeconds = 60
	shortWatches      = 5 // of an instance
	longWatchSeconds  = 300
	// unmarkedWatches is the number of an instance's watches without bookmarks that make a finding.
	unmarkedWatches = 5
)

// findings returns the findings of all rows, the largest saving first. Findings that one change of
// a client repairs are joined. Millrace's replicas have no findings.
func (l *ledger) findings() []Finding {
	byRepair := map[string]*Finding{}
	var joined []*Finding
	for _, r := range l.rows {
		if isReplica(r.UserAgent) {
			continue
		}
		for _, find := range l.finders() {
			f := find(r)
			if f == nil || !l.isWorthwhile(f.SavedCPU) {
				continue
			}
			f.Client, f.Resource, f.Fleet, f.Cost = r.Client, r.Resource, r.Fleet, r.Cost
			f.source, f.collection, f.Request = r.Source, r.collectionName(), r.Example()
			f.SavedCPU, f.SavedBytes = max(0, f.SavedCPU), max(0, f.SavedBytes)
			f.Repair, f.shapeCount = f.repair(), 1
			key := strings.Join([]string{f.Kind, f.User, f.UserAgent, f.Setting}, "\x00")
			if costliest := byRepair[key]; costliest != nil { // as rows are sorted
				costliest.add(f)
				continue
			}
			f.FlowSchema = flowSchema(f)
			byRepair[key] = f
			joined = append(joined, f)
		}
	}
	slices.SortStableFunc(joined, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(b.SavedCPU, a.SavedCPU), cmp.Compare(b.Cost.CPU, a.Cost.CPU), cmp.Compare(b.Cost.Requests, a.Cost.Requests))
	})
	findings := make([]Finding, len(joined))
	for i, f := range joined {
		f.Why = f.why()
		findings[i] = *f
	}
	return findings
}

// add adds the finding of a cheaper shape that the same repair ends.
func (f *Finding) add(g *Finding) {
	if g.collection != f.collection && !slices.Contains(f.FurtherCollections, g.collection) {
		f.FurtherCollections = append(f.FurtherCollections, g.collection)
	}
	f.Cost.add(&g.Cost)
	f.watches.add(&g.watches)
	f.SavedCPU += g.SavedCPU
	f.SavedBytes += g.SavedBytes
	f.Fleet = max(f.Fleet, g.Fleet)
	f.shapeCount++
	if g.source != f.source {
		f.source = fromCache + " and " + fromEtcd
	}
}

// isWorthwhile reports whether a saving of CPU seconds is large enough for a finding.
func (l *ledger) isWorthwhile(savedCPU float64) bool {
	return savedCPU >= worthwhileCPU*l.period || savedCPU >= worthwhileFraction*l.total.CPU && savedCPU >= minCPU*l.period
}

// hourlyPerInstance returns the mean number of requests that an instance sends per hour.
func (r *row) hourlyPerInstance() float64 { return r.perInstance() / r.period * 3600 }

// subject returns the subject of a sentence: the client of a row, and the number of its instances.
func (r *row) subject() string {
	name := display.Clean(r.Name())
	if name == "" {
		name = "A client without a name"
	}
	if r.Fleet > 1 {
		name += fmt.Sprintf(", %d instances,", r.Fleet)
	}
	return name
}

// repair returns what the client should do, in a few words.
func (f *Finding) repair() string {
	resource := display.Clean(f.Resource)
	switch f.Kind {
	case kindPolling:
		return fmt.Sprintf("watch %s instead of asking again and again", f.collection)
	case kindRelistLoop:
		return fmt.Sprintf("resume the watches of %s instead of reading all objects again", f.collection)
	case kindLimitIgnored:
		return fmt.Sprintf("list %s without resourceVersion=0, or without a limit", f.collection)
	case kindRevisionUnset:
		return fmt.Sprintf("list %s with resourceVersion=0", f.collection)
	case kindNamespace:
		return fmt.Sprintf("ask for %s in the path of the namespace, not by a field", resource)
	case kindAllNamespaces:
		return fmt.Sprintf("list %s of its own namespace only", resource)
	case kindNoBookmarks:
		return fmt.Sprintf("watch %s with bookmarks", f.collection)
	case kindShortWatches:
		return fmt.Sprintf("let the watches of %s last longer", f.collection)
	}
	return fmt.Sprintf("read %s as protobuf, not as JSON", f.collection)
}

// why returns sentences on what the requests of a finding cost.
func (f *Finding) why() string {
	requests, w := max(1, float64(f.Cost.Requests)), &f.watches
	var sums string
	if f.shapeCount > 1 {
		sums = fmt.Sprintf(" These are the sums of %d shapes of requests; the most expensive shape is shown.", f.shapeCount)
	}
	switch f.Kind {
	case kindNoBookmarks:
		return fmt.Sprintf("%s watches started, %s ended with 410; %s LISTs came after the first LIST of each instance.%s",
			display.Count(w.started), display.Count(w.gone), display.Count(w.relists), sums)
	case kindShortWatches:
		return fmt.Sprintf("%s watches ended, after %s on average; their starts took %s of CPU, of %s with the events.%s",
			display.Count(w.ended), display.Seconds(w.seconds/max(1, float64(w.ended))),
			display.Seconds(w.startCPU), display.Seconds(f.Cost.CPU), sums)
	}
	each := func(sum uint64) float64 { return float64(sum) / requests }
	return fmt.Sprintf("%s requests, each looking at %s objects (%s) in %s to return %s (%s); together %s of CPU.%s",
		display.Count(requests), display.Count(each(f.Cost.Scanned)), display.Size(each(f.Cost.ScannedBytes)), f.source,
		display.Count(each(f.Cost.Objects)), display.Size(each(f.Cost.Bytes)), display.Seconds(f.Cost.CPU), sums)
}

// collectionName returns the name of a row's collection for sentences.
func (r *row) collectionName() string {
	name := display.Clean(r.Resource)
	switch {
	case r.Scope == serverreport.ScopeNamespace:
		name += " of a namespace"
	case r.Scope == serverreport.ScopeCluster && r.Selectors == "":
		name = "all " + name
	}
	if r.Selectors != "" {
		name += " by " + display.Clean(r.Selectors)
	}
	return name
}
