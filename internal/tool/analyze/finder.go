package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/price"
	"github.com/millrace/millrace/internal/tool/useragent"
)

// finders returns a function for each kind of finding. Each function returns the finding of a row,
// or nil. The finding has its kind, its sentences, the better request, and the CPU and bytes that
// the better request saves.
func (l *ledger) finders() []func(*row) *Finding {
	return []func(*row) *Finding{
		l.findPolling, l.findRelistLoop, l.findIgnoredLimit, l.findUnsetRevision, l.findNamespaceSelector, l.findAllNamespaces,
		l.findMissingBookmarks, l.findShortWatches, l.findJSON,
	}
}

// findPolling finds clients that repeat LISTs or GETs and never watch. It compares LISTs with
// one LIST of each instance, and GETs with no request at all.
func (l *ledger) findPolling(r *row) *Finding {
	isGet := r.Verb == "get" && r.Scope == serverreport.ScopeName && r.Resource != leases && !strings.Contains(r.Resource, "/")
	isList := r.Verb == "list" && r.isInitial()
	if r.isWatched() || !isGet && !isList || r.Version == "" {
		return nil
	}
	if isGet && (r.perInstance() < polledGets || r.perInstance()/r.period < polledGetsPerSecond) {
		return nil
	}
	if isList && (r.perInstance() < polledLists || r.hourlyPerInstance() < polledListsHourly) {
		return nil
	}
	if r.UserAgent == useragent.KubectlProgram && r.hourlyPerInstance() < kubectlHourly {
		return nil
	}
	once := l.model.costOf(&r.Shape, false, float64(r.Fleet))
	if isGet {
		once = Cost{}
	}
	f := &Finding{
		Kind: kindPolling, SavedCPU: r.CPU - once.CPU, SavedBytes: float64(r.Bytes) - float64(once.Bytes), Instead: watchExample(r.Shape),
	}
	f.Sentence = fmt.Sprintf("%s polls %s: each instance asks every %s and never watches.",
		r.subject(), r.collectionName(), display.Seconds(r.period/r.perInstance()))
	f.Setting = "Use an informer, or list once with resourceVersion=0 and watch from there: a watch sends changes only."
	if r.Revision == serverreport.RevisionUnset {
		f.Setting += " As long as the client polls, resourceVersion=0 spares the question to etcd."
	}
	if l.onEveryNode(r) {
		f.Sentence = strings.TrimSuffix(f.Sentence, ".") + "; it has about one instance per node, like a DaemonSet."
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

// findRelistLoop finds clients that watch, and yet read the whole collection again and again. It
// compares the reads with one read of each instance.
func (l *ledger) findRelistLoop(r *row) *Finding {
	if !r.isWatched() || !r.isInitial() {
		return nil
	}
	// Each instance needs one read. The events of a watch come in any case.
	perInstance := float64(r.Requests) / r.use.readers(r)
	hourly := perInstance / r.period * 3600
	if perInstance < relists || hourly < relistsHourly {
		return nil
	}
	start := l.startCost(r)
	spared := 1 - 1/perInstance // fraction of the requests
	f := &Finding{
		Kind: kindRelistLoop, SavedCPU: start.CPU * spared, SavedBytes: float64(start.Bytes) * spared, Instead: watchExample(r.Shape),
	}
	often := display.Count(hourly) + " times per hour"
	if r.period < shortLogSeconds {
		often = fmt.Sprintf("%s times in %s", display.Count(perInstance), display.Seconds(r.period))
	}
	f.Sentence = fmt.Sprintf("%s reads the whole collection of %s %s in each instance, although it watches: %s watches, of "+
		"which %s ended with 410.",
		r.subject(), r.collectionName(), often, display.Count(r.use.watches), display.Count(r.use.gone))
	f.Setting = "Resume a watch that ended with the resourceVersion of its last event or bookmark, and list again only after 410. " +
		"Ask for bookmarks, and wait longer after each failure."
	return f
}

// findIgnoredLimit finds LISTs whose limit the server ignores, because of resourceVersion=0. It
// compares the LISTs with LISTs of one page.
func (l *ledger) findIgnoredLimit(r *row) *Finding {
	objects := float64(r.Objects) / float64(r.Requests)
	if r.Verb != "list" || r.Limit == 0 || r.Revision != serverreport.RevisionAny || r.isWatched() || r.Requests < 2 {
		return nil
	}
	if objects <= float64(r.Limit) {
		return nil
	}
	instead := r.SentShape
	instead.Revision = serverreport.RevisionUnset
	page := l.model.costOf(&instead.Shape, false, float64(r.Requests))
	return &Finding{
		Kind: kindLimitIgnored, SavedCPU: r.CPU - page.CPU, SavedBytes: float64(r.Bytes) - float64(page.Bytes), Instead: instead.Example(),
		Sentence: fmt.Sprintf("%s asks for %s in pages of %d with resourceVersion=0. The server then ignores the limit and sends all %s objects.",
			r.subject(), r.collectionName(), r.Limit, display.Count(objects)),
		Setting: "Leave resourceVersion out where the first pages are enough, or to hold a page at a time. " +
			"Where all objects are wanted, drop the limit. The saving is for one page instead of all objects.",
	}
}

// findUnsetRevision finds LISTs without a resource version: they need etcd. It compares the LISTs
// with LISTs from the cache. If they come from the cache already, it saves the question to etcd for
// its revision.
func (l *ledger) findUnsetRevision(r *row) *Finding {
	if r.Verb != "list" || r.Revision != serverreport.RevisionUnset || r.UserAgent == useragent.KubectlProgram {
		return nil
	}
	if isComponent(r.User) || slices.Contains(uncached, r.Resource) {
		return nil
	}
	if r.Requests < unsetRequests || float64(r.Requests)/r.period*3600 < unsetHourly {
		return nil
	}
	if r.Limit > 0 && r.Source != fromEtcd {
		return nil // a page of a consistent list needs an unset resource version
	}
	instead := r.SentShape
	instead.Revision = serverreport.RevisionAny
	cached := l.model.costOf(&instead.Shape, false, float64(r.Requests))
	f := &Finding{Kind: kindRevisionUnset, SavedCPU: r.CPU - cached.CPU, Instead: instead.Example()}
	if r.Source != fromEtcd {
		// The server asks etcd for its revision, at the price of a GET that etcd answers.
		f.SavedCPU = l.model.prices.Stock.CPU(&price.Work{EtcdGets: float64(r.Requests)})
	}
	f.Sentence = fmt.Sprintf("%s lists %s without a resourceVersion.", r.subject(), r.collectionName())
	f.Setting = "Set ResourceVersion: \"0\" in ListOptions, if an answer may be a moment old: " +
		"it then comes from the cache without a question to etcd."
	if r.Source == fromEtcd {
		f.Sentence += " The server reads them all from etcd, and selects afterwards."
		return f
	}
	f.Sentence += " The server asks etcd for its revision each time, and waits until its cache has it."
	return f
}

// findNamespaceSelector finds requests for all namespaces that select one namespace by a field. It
// compares LISTs with LISTs of that namespace.
func (l *ledger) findNamespaceSelector(r *row) *Finding {
	fields := r.SelectorKeys("fields")
	if r.Verb != "list" && r.Verb != "watch" || r.Scope != serverreport.ScopeCluster || !slices.Contains(fields, namespaceField) {
		return nil
	}
	instead := r.SentShape
	instead.Scope = serverreport.ScopeNamespace
	fields = slices.DeleteFunc(fields, func(key string) bool { return key == namespaceField })
	instead.Selectors = serverreport.FormatSelectors(r.SelectorKeys("labels"), fields)
	f := &Finding{Kind: kindNamespace, Instead: instead.Example()}
	if r.Verb == "list" {
		f.SavedCPU = r.CPU - l.model.costOf(&instead.Shape, false, float64(r.Requests)).CPU
	}
	f.Sentence = fmt.Sprintf("%s selects %s by the field metadata.namespace: the server looks at the objects of all namespaces.",
		r.subject(), display.Clean(r.Resource))
	f.Setting = "Ask the namespace itself (in client-go Pods(\"NAMESPACE\").List, in informers WithNamespace): " +
		"the answer is the same, and needs no right to other namespaces."
	return f
}

// findAllNamespaces finds LISTs of all namespaces by clients that use objects of one namespace. It
// compares the LISTs with LISTs of that namespace.
func (l *ledger) findAllNamespaces(r *row) *Finding {
	use := l.clients[r.Client]
	if r.Verb != "list" || r.Scope != serverreport.ScopeCluster || r.Selectors != "" || r.isWatched() || r.Requests < 2 {
		return nil
	}
	if use.namespace == "" || use.severalNamespaces || slices.Contains(clusterScoped, r.Resource) {
		return nil
	}
	instead := r.SentShape
	instead.Scope = serverreport.ScopeNamespace
	narrow := l.model.costOf(&instead.Shape, false, float64(r.Requests))
	return &Finding{
		Kind: kindAllNamespaces, SavedCPU: r.CPU - narrow.CPU, SavedBytes: float64(r.Bytes) - float64(narrow.Bytes), Instead: instead.Example(),
		Sentence: fmt.Sprintf("%s lists %s of all namespaces, and reads and writes objects of one namespace only (%s).",
			r.subject(), display.Clean(r.Resource), display.Clean(use.namespace)),
		Setting: "List that namespace (in client-go Pods(\"NAMESPACE\").List, in informers WithNamespace, " +
			"in controller-runtime cache.Options.DefaultNamespaces), and take the right to list the others away.",
	}
}

// startCost returns the cost of a row without the events of watches after their start.
func (l *ledger) startCost(r *row) Cost {
	if r.Verb != "watch" {
		return r.Cost
	}
	return l.model.costOf(&r.Shape, r.isInitial(), float64(r.Requests-min(r.Requests, r.Errors)))
}

// findMissingBookmarks finds watches without bookmarks. It assumes that bookmarks would spare the
// LISTs that an instance sends after its first LIST, but at most one LIST per watch.
func (l *ledger) findMissingBookmarks(r *row) *Finding {
	if r.Verb != "watch" || r.Bookmarks || r.Scope == serverreport.ScopeName || r.perInstance() < unmarkedWatches {
		return nil
	}
	instead := r.SentShape
	instead.Bookmarks = true
	f := &Finding{Kind: kindNoBookmarks, Instead: instead.Example(), watches: watchSums{started: r.Requests, gone: r.cell.gone}}
	unmatched := float64(r.Requests) // watches without a LIST so far
	for _, list := range r.use.initialLists {
		if list.Scope != r.Scope || list.Selectors != r.Selectors {
			continue
		}
		again := max(0, min(unmatched, float64(list.Requests)-float64(list.Fleet))) // the fleet is an estimate
		unmatched -= again
		f.watches.relists += again
		f.SavedCPU += list.CPU * again / float64(list.Requests)
		f.SavedBytes += float64(list.Bytes) * again / float64(list.Requests)
	}
	f.Sentence = fmt.Sprintf("%s watches %s without bookmarks: on a quiet resource its resourceVersion becomes too old, "+
		"and the next watch ends with 410 and a LIST of all objects.", r.subject(), r.collectionName())
	f.Setting = "Set AllowWatchBookmarks: true in ListOptions and keep the resourceVersion of each bookmark."
	return f
}

// findShortWatches finds watches that end soon and start again. It compares their starts with the
// starts of watches of longWatchSeconds. Events cost the same in any case.
func (l *ledger) findShortWatches(r *row) *Finding {
	if r.Verb != "watch" || float64(r.cell.ended) < shortWatches*r.use.readers(r) || r.MeanSeconds > shortWatchSeconds {
		return nil
	}
	if r.Scope == serverreport.ScopeName {
		return nil
	}
	start := l.startCost(r)
	spared := 1 - r.MeanSeconds/longWatchSeconds // fraction of the watches
	return &Finding{
		Kind: kindShortWatches, SavedCPU: start.CPU * spared, SavedBytes: float64(start.Bytes) * spared,
		Instead: watchExample(r.Shape) + fmt.Sprintf("&timeoutSeconds=%d", longWatchSeconds),
		watches: watchSums{started: r.Requests, ended: r.cell.ended, seconds: r.cell.watchedSeconds(), startCPU: start.CPU},
		Sentence: fmt.Sprintf("%s ends its watches of %s after %s on average, and starts new watches.",
			r.subject(), r.collectionName(), display.Seconds(r.MeanSeconds)),
		Setting: "Leave timeoutSeconds out, or set 300 to 600, and start the next watch with the resourceVersion of the " +
			"last event or bookmark. " +
			"Let no timeout of the HTTP client and no idle timeout of a proxy be shorter than the minute between bookmarks.",
	}
}

// findJSON finds LISTs and watches of built-in resources as JSON by programs that are known to request
// JSON. It compares them with the same requests for protobuf.
func (l *ledger) findJSON(r *row) *Finding {
	if r.Verb != "list" && r.Verb != "watch" || r.Encoding != price.JSON || !r.knownEncoding || !clusterprofile.BuiltIn(r.Resource) {
		return nil
	}
	asProtobuf := r.Shape
	asProtobuf.Encoding = price.Protobuf
	smaller := l.model.cost(&asProtobuf, r.isInitial(), r.cell)
	f := &Finding{Kind: kindJSON, SavedCPU: r.CPU - smaller.CPU, Instead: r.Example() + "\nAccept: application/vnd.kubernetes.protobuf"}
	f.SavedBytes = float64(r.Bytes) * (1 - l.model.objectBytes(r.Resource, price.Protobuf)/l.model.objectBytes(r.Resource, price.JSON))
	f.Sentence = fmt.Sprintf("%s reads %s as JSON.", r.subject(), r.collectionName())
	f.Setting = "Ask for protobuf (Accept: application/vnd.kubernetes.protobuf; in client-go rest.Config.ContentType): " +
		"it is smaller, and cheaper to encode and to decode. " +
		"Where the library has no protobuf, ask for metadata only (as=PartialObjectMetadataList), if nothing else is read."
	return f
}
