package differential

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/sharding"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// watchRequest is a request for a watch, with the events that it has to
// deliver.
type watchRequest struct {
	request
	kind  *watchedKind
	start watchcheck.Start
	// opens is the tenth of the script after which the request is sent. since
	// is the tenth from which the watch delivers events.
	opens, since int
}

// laterVersion stands for a revision during the script.
const laterVersion = "LATER"

const (
	oneMetadata     = ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	oneMetadataBeta = ";as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"
	streamed        = ";stream=watch"
)

// watchForms are Accept headers that clients of watches send and servers
// understand.
var watchForms = []string{
	"", "*/*", "application/json", "application/json", protobuf, protobuf, typedClient, typedClient, "application/json" + streamed, protobuf + streamed, protobuf + streamed + ",application/json",
	"application/json" + oneMetadata, "application/json" + oneMetadataBeta, protobuf + oneMetadata, protobuf + oneMetadataBeta,
	protobuf + oneMetadata + ",application/json" + oneMetadata + ",application/json", kubectlGet, "application/json" + asTable, "application/json" + asTableBeta,
	"application/json;pretty=1", "application/json, text/plain, */*", protobuf + ";q=0.2,application/json;q=0.8",
}

// watch returns a random legal request for a watch of a kind that the script
// writes. now is the revision before the script.
func (s *script) watch(now int64) watchRequest {
	k := pick(s.requestGenerator, s.kinds...)
	w := watchRequest{kind: k, request: request{accept: pick(s.requestGenerator, watchForms...)}}
	if k.Name == "widgets" && !strings.Contains(w.accept, "application/json") {
		w.accept = "" // Custom resources have no protobuf.
	}
	if k.namespaced && s.once(2) {
		w.start.Namespace = pick(s.requestGenerator, scriptNamespaces...)
	}
	root := pick(s.requestGenerator, k.roots...)
	w.path, w.listPath = k.listPath(root, w.start.Namespace), k.listPath(k.roots[0], "")
	var q query
	legacy := s.once(6)
	if legacy {
		w.path = strings.Replace(w.path, root, root+"/watch", 1)
		if (!k.namespaced || w.start.Namespace != "") && s.once(2) {
			w.start.Name = s.some().name
			w.path += "/" + w.start.Name
		}
	}
	q = s.watchSelectors(q, &w, root)
	q = s.watchVersion(q, &w, now)
	// On the old watch paths, Kubernetes validates sendInitialEvents as if for
	// a list.
	if asked := strings.Contains(q.String(), "sendInitialEvents"); !legacy || asked || s.once(4) {
		q = q.with("watch", pick(s.requestGenerator, "1", "true", "True"))
	}
	if s.once(3) {
		q, w.start.Bookmarks = q.with("allowWatchBookmarks", "true"), true
	}
	// Kubernetes treats watches that begin with initial events as if
	// sendInitialEvents were set, except on the old paths without watch=.
	w.start.End = w.start.Bookmarks && w.start.Initial && strings.Contains(q.String(), "watch=")
	if strings.Contains(w.accept, "as=Table") && s.once(2) {
		q = q.with("includeObject", pick(s.requestGenerator, "None", "Metadata", "Object"))
	}
	q = s.watchOddities(q, &w)
	if s.pair.plainWatchLists && strings.Contains(q.String(), "sendInitialEvents=true") {
		w.encoding = ""
	}
	s.Shuffle(len(q), func(i, j int) { q[i], q[j] = q[j], q[i] })
	w.query = q.String()
	return w
}

func (s *script) watchOddities(q query, w *watchRequest) query {
	if s.once(12) {
		q = q.with("pretty", pick(s.requestGenerator, "1", "true", "0"))
	}
	if s.once(4) {
		q = q.with("timeoutSeconds", pick(s.requestGenerator, "0", "300", "3600"))
	}
	if s.once(12) {
		q = q.with(pick(s.requestGenerator, "unknown", "limit", "timeout"), pick(s.requestGenerator, "1m", "5m"))
		q = q.without("limit")
	}
	if s.once(10) {
		w.agent = pick(s.requestGenerator, "curl/8.5.0", "kubectl/v1.36.3", "Mozilla/5.0 (X11)")
	}
	if s.once(8) {
		w.encoding = pick(s.requestGenerator, "gzip", "identity", "gzip, deflate", "gzip;q=0", "identity;q=1, gzip;q=0", "x-gzip, notgzip", "gzip;q=0.5")
	}
	if s.once(5) {
		w.as = http1
	}
	return q
}

// watchVersion chooses the revision from which the watch starts. Only watches
// from a given revision can be opened during writes.
func (s *script) watchVersion(q query, w *watchRequest, now int64) query {
	at := fmt.Sprint(now)
	way := s.IntN(10)
	if w.kind.Name == "events" && way >= 8 {
		way = s.IntN(8) // Kubernetes starts the others at the revision at which it opens them.
	}
	switch {
	case way < 5:
		w.start.Revision, w.opens = now, pick(s.requestGenerator, 0, 0, 0, 5, 10)
		if w.opens > 0 && s.once(2) {
			w.since, at = 1+s.IntN(w.opens), laterVersion
		}
		return q.with("resourceVersion", at)
	case way == 5:
		w.start.Initial = true
		return q.with("resourceVersion", pick(s.requestGenerator, "", "0", "0")).withoutEmpty()
	case way < 8:
		w.start.Initial = true
		if q = q.with("sendInitialEvents", "true").with("resourceVersionMatch", "NotOlderThan"); s.once(2) {
			q = q.with("resourceVersion", pick(s.requestGenerator, "0", at))
		}
		return q
	}
	w.start.Revision = now
	q = q.with("sendInitialEvents", "false").with("resourceVersionMatch", "NotOlderThan")
	return q.with("resourceVersion", pick(s.requestGenerator, "", "0", at)).withoutEmpty()
}

// watchSelectors adds selectors to the watch.
func (s *script) watchSelectors(q query, w *watchRequest, root string) query {
	if s.once(2) {
		selector := s.scriptLabels()
		q = q.with("labelSelector", selector)
		w.start.Labels, _ = labels.Parse(selector)
	}
	if s.once(3) && !s.pair.ignoresShards {
		selector := s.shardSelector(false)
		q = q.with("shardSelector", selector)
		w.start.Shard, _ = sharding.Parse(selector)
	}
	if w.start.Name != "" || !s.once(2) {
		return q
	}
	selector := s.scriptFields(w, root)
	q = q.with("fieldSelector", selector)
	w.start.Fields, _ = fields.ParseSelector(selector)
	return q
}

func (s *script) scriptLabels() string {
	app := pick(s.requestGenerator, scriptApps...)
	return pick(s.requestGenerator,
		"app="+app, "app=="+app, "app!="+app, "app in (web,db)", "app notin (web)", "app", "!app", "tier=front", "tier", "!tier", "absent", "!absent", "write>20", "write<30",
		"app="+app+",tier=front", "app,!tier", "app in (web,cache),tier notin (front)", "tier=front,write>10")
}

func (s *script) scriptFields(w *watchRequest, root string) string {
	var choices []string
	for _, field := range slices.Sorted(maps.Keys(w.kind.selectors)) {
		name := field
		if strings.Contains(root, "events.k8s.io") {
			name = strings.Replace(field, "involvedObject", "regarding", 1)
		}
		for _, value := range w.kind.selectors[field] {
			choices = append(choices, name+pick(s.requestGenerator, "=", "=", "!=")+value)
		}
	}
	named := "metadata.name=" + s.some().name
	choices = append(choices, named, named, "metadata.name!="+s.some().name)
	if w.kind.namespaced {
		choices = append(choices, "metadata.namespace="+pick(s.requestGenerator, scriptNamespaces...), named+",metadata.namespace=team-a")
	}
	selector := pick(s.requestGenerator, choices...)
	if other := pick(s.requestGenerator, choices...); s.once(4) && !strings.Contains(selector, ",") {
		selector += "," + other
	}
	return selector
}

// wildWatch returns a random request for a watch that soon ends by itself. It
// may be illegal.
func (gen *requestGenerator) wildWatch(kinds []*kind) request {
	k := pick(gen, kinds...)
	for !k.lists {
		k = pick(gen, kinds...)
	}
	wild := gen.once(3)
	r := request{path: gen.scope(k, wild), listPath: k.listPath("")}
	if wild && gen.once(4) {
		r.path = k.path(firstKey(k))
	}
	q := query{{"watch", "1"}}
	if gen.once(6) {
		r.path = strings.Replace(r.path, k.root(), k.root()+"/watch", 1)
		if q = nil; gen.once(2) && len(k.keys) > 0 {
			r.path = strings.Replace(k.path(pick(gen, k.keys...)), k.root(), k.root()+"/watch", 1)
		}
	}
	q = gen.wildWatchVersions(q, wild)
	q = gen.selectors(q, k, wild)
	q = q.with("timeoutSeconds", "1")
	if gen.once(3) {
		q = q.with("allowWatchBookmarks", pick(gen, "true", "1", "false"))
	}
	if wild && gen.once(5) {
		q = q.with(pick(gen, "limit", "continue", "allowWatchBookmarks", "shardSelector", "timeout", "watch", "unknown"), pick(gen, "5", "x", "", "1", "false"))
	}
	r.accept = pick(gen, watchForms...)
	if wild && gen.once(2) {
		r.accept = strings.ReplaceAll(pick(gen, append(slices.Clone(refused), accepted...)...), "LIST", pick(gen, "", "List"))
	}
	if strings.Contains(r.accept, "as=Table") && gen.once(2) || wild && gen.once(12) {
		q = q.with("includeObject", pick(gen, "None", "Metadata", "Object", "", "junk"))
	}
	if gen.once(8) {
		q = q.with("pretty", pick(gen, "1", "true", "0", ""))
	}
	r.agent, r.encoding = pick(gen, "", "", "", "curl/8.5.0", "Mozilla/5.0 (X11)"), pick(gen, "", "", "", "gzip")
	if gen.once(3) {
		r.as = http1
	}
	gen.Shuffle(len(q), func(i, j int) { q[i], q[j] = q[j], q[i] })
	r.query = q.String()
	return r
}

// wildWatchVersions never chooses a future revision, for which servers wait.
func (gen *requestGenerator) wildWatchVersions(q query, wild bool) query {
	version := pick(gen, "", "0", fmt.Sprint(pick(gen, gen.pinned...)), fmt.Sprint(pick(gen, gen.pinned...)))
	if wild && gen.once(3) {
		// Revision 7 is too old for only one of the servers, namely the one
		// that began with an empty etcd.
		version = strings.ReplaceAll(pick(gen, brokenVersions...), "007", "x7")
	}
	if version != "" || wild && gen.once(6) {
		q = q.with("resourceVersion", version)
	}
	match := ""
	if gen.once(2) {
		q, match = q.with("sendInitialEvents", pick(gen, "true", "true", "false")), "NotOlderThan"
	}
	if wild && gen.once(3) {
		match = pick(gen, "", "Exact", "NotOlderThan", "junk")
	}
	if match != "" {
		q = q.with("resourceVersionMatch", match)
	}
	if wild && gen.once(8) {
		q = q.with("sendInitialEvents", pick(gen, "x", "", "false", "true"))
	}
	return q
}

// unescaped returns a query in readable form.
func unescaped(q string) string {
	if plain, err := url.QueryUnescape(q); err == nil {
		return plain
	}
	return q
}
