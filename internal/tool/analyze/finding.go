package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/price"
	"github.com/millrace/millrace/internal/tool/useragent"
)

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
	// A finding must save worthCPU processors, or worthShare of all CPU and leastCPU.
	worthShare = 0.005
	worthCPU   = 0.001
	leastCPU   = 0.0001
	// An instance polls if it lists so often, and so many times an hour.
	polledLists, polledListsHourly = 5, 2
	// People use kubectl by hand. Scripts send more.
	kubectlHourly = 60
	// GETs of a single object are common: they count from so many a second.
	polledGets, polledGetsPerSecond = 300, 0.2
	// An instance that watches lists anew after a restart, and after an error now and then.
	relists, relistsHourly = 4, 4
	// Requests without a resource version count from so many an hour.
	unsetRequests, unsetHourly = 20, 36
	// Watches last some minutes: lastingWatch seconds are what is advised at the least.
	shortWatch, shortWatches = 60, 5
	lastingWatch             = 300
	unmarkedWatches          = 5
)

// findings returns what each row could do better, the largest saving first. What one change of a
// client repairs is one finding. Millrace's replicas have none.
func (l *ledger) findings() []Finding {
	byRepair := map[string]*Finding{}
	var all []*Finding
	for _, r := range l.rows {
		if isReplica(r.UserAgent) {
			continue
		}
		for _, find := range []func(*row) *Finding{l.polling, l.relistLoop, l.limitIgnored, l.revisionUnset, l.namespaceSelector, l.allNamespaces, l.noBookmarks, l.shortWatches, l.json} {
			f := find(r)
			if f == nil || !l.worth(f.SavedCPU) {
				continue
			}
			f.Client, f.Resource, f.Fleet, f.Cost, f.source, f.what, f.shapes = r.Client, r.Resource, r.Fleet, r.Cost, r.Source, r.what(), 1
			f.Request, f.SavedCPU, f.SavedBytes = r.Example(), max(0, f.SavedCPU), max(0, f.SavedBytes)
			key := strings.Join([]string{f.Kind, f.User, f.UserAgent, f.Setting}, "\x00")
			if have := byRepair[key]; have != nil { // rows come in the order of their cost
				have.add(f)
				continue
			}
			f.FlowSchema = flowSchema(f)
			byRepair[key] = f
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(b.SavedCPU, a.SavedCPU), cmp.Compare(b.Cost.CPU, a.Cost.CPU), cmp.Compare(b.Cost.Requests, a.Cost.Requests))
	})
	list := make([]Finding, len(all))
	for i, f := range all {
		f.Why = f.why()
		list[i] = *f
	}
	return list
}

// add adds a finding that the same repair ends, of a cheaper shape.
func (f *Finding) add(g *Finding) {
	if g.what != f.what && !slices.Contains(f.Also, g.what) {
		f.Also = append(f.Also, g.what)
	}
	f.Cost.add(&g.Cost)
	f.watches.add(&g.watches)
	f.SavedCPU, f.SavedBytes = f.SavedCPU+g.SavedCPU, f.SavedBytes+g.SavedBytes
	f.Fleet, f.shapes = max(f.Fleet, g.Fleet), f.shapes+1
	if g.source != f.source {
		f.source = fromCache + " and " + fromEtcd
	}
}

func (l *ledger) worth(savedCPU float64) bool {
	return savedCPU >= worthCPU*l.period || savedCPU >= worthShare*l.total.CPU && savedCPU >= leastCPU*l.period
}

// hourly is how often an instance sends the requests of a row in an hour.
func (r *row) hourly() float64 { return r.each() / r.period * 3600 }

// subject names the client of a row, with its instances.
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

// why says what the requests of a finding cost.
func (f *Finding) why() string {
	n, w, all := max(1, float64(f.Cost.Requests)), &f.watches, ""
	if f.shapes > 1 {
		all = fmt.Sprintf(" These are the sums of %d shapes of requests; the most expensive one is shown.", f.shapes)
	}
	switch f.Kind {
	case kindNoBookmarks:
		return fmt.Sprintf("%s watches began, %s ended with 410; %s LISTs came after the first one of each instance.%s", display.Count(w.began), display.Count(w.gone), display.Count(w.relists), all)
	case kindShortWatches:
		return fmt.Sprintf("%s watches ended, after %s on average; beginning them took %s of CPU, of %s with the events.%s",
			display.Count(w.ended), display.Seconds(w.seconds/max(1, float64(w.ended))), display.Seconds(w.beginCPU), display.Seconds(f.Cost.CPU), all)
	}
	return fmt.Sprintf("%s requests, each looking at %s objects (%s) in %s to return %s (%s); together %s of CPU.", display.Count(n),
		display.Count(float64(f.Cost.Scanned)/n), display.Size(float64(f.Cost.ScannedBytes)/n), f.source, display.Count(float64(f.Cost.Objects)/n), display.Size(float64(f.Cost.Bytes)/n), display.Seconds(f.Cost.CPU)) + all
}

// what names the collection of a row.
func (r *row) what() string {
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

func (l *ledger) polling(r *row) *Finding {
	isGet := r.Verb == "get" && r.Scope == serverreport.ScopeName && r.Resource != leases && !strings.Contains(r.Resource, "/")
	isList := r.Verb == "list" && r.anew()
	if r.watched() || !isGet && !isList || r.Version == "" {
		return nil
	}
	if isGet && (r.each() < polledGets || r.each()/r.period < polledGetsPerSecond) || isList && (r.each() < polledLists || r.hourly() < polledListsHourly) {
		return nil
	}
	if r.UserAgent == useragent.Kubectl && r.hourly() < kubectlHourly {
		return nil
	}
	once := l.model.costOf(&r.Shape, false, float64(r.Fleet))
	if isGet {
		once = Cost{}
	}
	f := &Finding{Kind: kindPolling, SavedCPU: r.CPU - once.CPU, SavedBytes: float64(r.Bytes) - float64(once.Bytes), Instead: watchExample(r.Shape)}
	f.Sentence = fmt.Sprintf("%s polls %s: each instance asks every %s and never watches.", r.subject(), r.what(), display.Seconds(r.period/r.each()))
	f.Setting = "Use an informer, or list once with resourceVersion=0 and watch from there: a watch sends changes only."
	if r.Revision == serverreport.RevisionUnset {
		f.Setting += " As long as it polls, resourceVersion=0 spares the question to etcd."
	}
	if l.onEveryNode(r) {
		f.Sentence = strings.TrimSuffix(f.Sentence, ".") + "; it has about an instance for each node, as a DaemonSet has."
		if r.Resource == "pods" && !slices.Contains(r.SelectorKeys("fields"), nodeField) {
			f.Setting += " Ask for the pods of its own node: fieldSelector=spec.nodeName=$(NODE_NAME), which has an index."
		}
	}
	return f
}

// onEveryNode reports whether a client has about as many instances as there are nodes.
func (l *ledger) onEveryNode(r *row) bool {
	return float64(r.Fleet) >= max(10, l.model.cluster.nodes/2) && float64(r.Fleet) <= 1.2*l.model.cluster.nodes+5
}

func (l *ledger) relistLoop(r *row) *Finding {
	if !r.watched() || !r.anew() {
		return nil
	}
	// Each instance needs one of them. The events of a watch come in any case.
	each := float64(r.Requests) / r.use.readers(r)
	hourly := each / r.period * 3600
	if each < relists || hourly < relistsHourly {
		return nil
	}
	begin, spared := l.begin(r), 1-1/each
	f := &Finding{Kind: kindRelistLoop, SavedCPU: begin.CPU * spared, SavedBytes: float64(begin.Bytes) * spared, Instead: watchExample(r.Shape)}
	f.Sentence = fmt.Sprintf("%s reads %s anew %s times an hour from each instance, although it watches them: %s watches, of which %s ended with 410.",
		r.subject(), r.what(), display.Count(hourly), display.Count(r.use.watches), display.Count(r.use.gone))
	f.Setting = "Resume a watch that ended with the resourceVersion of its last event or bookmark, and list again only after 410. Ask for bookmarks, and wait longer after each failure."
	return f
}

func (l *ledger) limitIgnored(r *row) *Finding {
	each := float64(r.Objects) / float64(r.Requests)
	if r.Verb != "list" || r.Limit == 0 || r.Revision != serverreport.RevisionAny || r.watched() || r.Requests < 2 || each <= float64(r.Limit) {
		return nil
	}
	instead := r.SentShape
	instead.Revision = serverreport.RevisionUnset
	page := l.model.costOf(&instead.Shape, false, float64(r.Requests))
	return &Finding{
		Kind: kindLimitIgnored, SavedCPU: r.CPU - page.CPU, SavedBytes: float64(r.Bytes) - float64(page.Bytes), Instead: instead.Example(),
		Sentence: fmt.Sprintf("%s asks for %s in pages of %d with resourceVersion=0: the server ignores the limit then and sends all %s objects.", r.subject(), r.what(), r.Limit, display.Count(each)),
		Setting:  "Leave resourceVersion out where the first pages are enough, or to hold a page at a time. Where all objects are wanted, drop the limit. The saving is that of taking one page.",
	}
}

func (l *ledger) revisionUnset(r *row) *Finding {
	if r.Verb != "list" || r.Revision != serverreport.RevisionUnset || r.UserAgent == useragent.Kubectl || isComponent(r.User) || slices.Contains(uncached, r.Resource) {
		return nil
	}
	if r.Requests < unsetRequests || float64(r.Requests)/r.period*3600 < unsetHourly {
		return nil
	}
	if r.Limit > 0 && r.Source != fromEtcd {
		return nil // pages need it
	}
	instead := r.SentShape
	instead.Revision = serverreport.RevisionAny
	f := &Finding{Kind: kindRevisionUnset, SavedCPU: r.CPU - l.model.costOf(&instead.Shape, false, float64(r.Requests)).CPU, Instead: instead.Example()}
	if r.Source != fromEtcd {
		// The question for the revision has the price of a GET that etcd answers.
		f.SavedCPU = l.model.prices.Stock.CPU(&price.Work{EtcdGets: float64(r.Requests)})
	}
	f.Sentence = fmt.Sprintf("%s lists %s without a resourceVersion.", r.subject(), r.what())
	f.Setting = "Set ResourceVersion: \"0\" in ListOptions, if an answer may be a moment old: it then comes from the cache without a question to etcd."
	if r.Source == fromEtcd {
		f.Sentence += " The server reads them all from etcd, and selects afterwards."
		return f
	}
	f.Sentence += " The server asks etcd for its revision each time, and waits until its cache has it."
	return f
}

func (l *ledger) namespaceSelector(r *row) *Finding {
	fields := r.SelectorKeys("fields")
	if r.Verb != "list" && r.Verb != "watch" || r.Scope != serverreport.ScopeCluster || !slices.Contains(fields, namespaceField) {
		return nil
	}
	instead := r.SentShape
	instead.Scope = serverreport.ScopeNamespace
	instead.Selectors = serverreport.FormatSelectors(r.SelectorKeys("labels"), slices.DeleteFunc(fields, func(key string) bool { return key == namespaceField }))
	f := &Finding{Kind: kindNamespace, Instead: instead.Example()}
	if r.Verb == "list" {
		f.SavedCPU = r.CPU - l.model.costOf(&instead.Shape, false, float64(r.Requests)).CPU
	}
	f.Sentence = fmt.Sprintf("%s selects %s by the field metadata.namespace: the server looks at the objects of all namespaces.", r.subject(), display.Clean(r.Resource))
	f.Setting = "Ask the namespace itself (in client-go Pods(\"NAMESPACE\").List, in informers WithNamespace): the answer is the same, and needs no right to other namespaces."
	return f
}

func (l *ledger) allNamespaces(r *row) *Finding {
	who := l.clients[r.Client]
	if r.Verb != "list" || r.Scope != serverreport.ScopeCluster || r.Selectors != "" || who.namespace == "" || who.several || slices.Contains(clusterScoped, r.Resource) || r.watched() || r.Requests < 2 {
		return nil
	}
	instead := r.SentShape
	instead.Scope = serverreport.ScopeNamespace
	narrow := l.model.costOf(&instead.Shape, false, float64(r.Requests))
	return &Finding{
		Kind: kindAllNamespaces, SavedCPU: r.CPU - narrow.CPU, SavedBytes: float64(r.Bytes) - float64(narrow.Bytes), Instead: instead.Example(),
		Sentence: fmt.Sprintf("%s lists %s of all namespaces, and reads and writes objects of one namespace only (%s).", r.subject(), display.Clean(r.Resource), display.Clean(who.namespace)),
		Setting:  "List that namespace (in client-go Pods(\"NAMESPACE\").List, in informers WithNamespace, in controller-runtime cache.Options.DefaultNamespaces), and take the right to list the others away.",
	}
}

// begin is the cost of a row without the events that watches were sent.
func (l *ledger) begin(r *row) Cost {
	if r.Verb != "watch" {
		return r.Cost
	}
	return l.model.costOf(&r.Shape, r.anew(), float64(r.Requests-min(r.Requests, r.Errors)))
}

// noBookmarks takes the LISTs that an instance sends after its first one to be those that a
// watch with bookmarks would spare, one for each watch.
func (l *ledger) noBookmarks(r *row) *Finding {
	if r.Verb != "watch" || r.Bookmarks || r.Scope == serverreport.ScopeName || r.each() < unmarkedWatches {
		return nil
	}
	instead := r.SentShape
	instead.Bookmarks = true
	f := &Finding{Kind: kindNoBookmarks, Instead: instead.Example(), watches: watchSums{began: r.Requests, gone: r.cell.gone}}
	left := float64(r.Requests)
	for _, list := range r.use.lists {
		if list.Scope != r.Scope || list.Selectors != r.Selectors {
			continue
		}
		again := max(0, min(left, float64(list.Requests)-float64(list.Fleet))) // the fleet is an estimate
		left -= again
		f.watches.relists += again
		f.SavedCPU += list.CPU * again / float64(list.Requests)
		f.SavedBytes += float64(list.Bytes) * again / float64(list.Requests)
	}
	f.Sentence = fmt.Sprintf("%s watches %s without bookmarks: on a quiet resource its resourceVersion becomes too old, and the next watch ends with 410 and a LIST of everything.", r.subject(), r.what())
	f.Setting = "Set AllowWatchBookmarks: true in ListOptions and keep the resourceVersion of each bookmark."
	return f
}

// shortWatches counts what beginning watches costs. Their events come to one that lasts, too.
func (l *ledger) shortWatches(r *row) *Finding {
	if r.Verb != "watch" || float64(r.cell.ended) < shortWatches*r.use.readers(r) || r.MeanSeconds > shortWatch || r.Scope == serverreport.ScopeName {
		return nil
	}
	begin, spared := l.begin(r), 1-r.MeanSeconds/lastingWatch
	return &Finding{
		Kind: kindShortWatches, SavedCPU: begin.CPU * spared, SavedBytes: float64(begin.Bytes) * spared,
		Instead:  watchExample(r.Shape) + fmt.Sprintf("&timeoutSeconds=%d", lastingWatch),
		watches:  watchSums{began: r.Requests, ended: r.cell.ended, seconds: r.cell.watchedSeconds(), beginCPU: begin.CPU},
		Sentence: fmt.Sprintf("%s ends its watches of %s after %s on average, and begins new ones.", r.subject(), r.what(), display.Seconds(r.MeanSeconds)),
		Setting:  "Leave timeoutSeconds out, or set 300 to 600, and begin the next watch with the resourceVersion of the last event or bookmark. Let no timeout of the HTTP client and no idle timeout of a proxy be shorter than the minute between bookmarks.",
	}
}

func (l *ledger) json(r *row) *Finding {
	if r.Verb != "list" && r.Verb != "watch" || r.Encoding != price.JSON || !r.sureForm || !clusterprofile.BuiltIn(r.Resource) {
		return nil
	}
	asProtobuf := r.Shape
	asProtobuf.Encoding = price.Protobuf
	f := &Finding{Kind: kindJSON, SavedCPU: r.CPU - l.model.cost(&asProtobuf, r.anew(), r.cell).CPU, Instead: r.Example() + "\nAccept: application/vnd.kubernetes.protobuf"}
	f.SavedBytes = float64(r.Bytes) * (1 - l.model.objectBytes(r.Resource, price.Protobuf)/l.model.objectBytes(r.Resource, price.JSON))
	f.Sentence = fmt.Sprintf("%s reads %s as JSON.", r.subject(), r.what())
	f.Setting = "Ask for protobuf (Accept: application/vnd.kubernetes.protobuf; in client-go rest.Config.ContentType): it is smaller, and cheaper to encode and to decode. Where the library has none, ask for metadata only (as=PartialObjectMetadataList), if that is all that is read."
	return f
}
