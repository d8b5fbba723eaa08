package read_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/warning"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/feed/apifeed"
	"github.com/millrace/millrace/internal/tier/read"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/sentobject"
)

// otherServer is what a server of another version sends around config maps. Its lists and
// bookmarks have fields that this version does not know.
var otherServer = apifeed.Surroundings{
	EmptyList:        []byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1","future":1},"items":[]}` + "\n"),
	Bookmark:         []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","future":null}}`),
	InitialEventsEnd: []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","future":null,"annotations":{"k8s.io/initial-events-end":"true"}}}`),
	Warnings:         []string{"config maps are old"},
}

// sentConfigMap is a config map as that server sends it, without kind and version.
func sentConfigMap(key string, revision int64) string {
	ns, name, _ := strings.Cut(key, "/")
	return fmt.Sprintf(`"metadata":{"name":%q,"namespace":%q,"resourceVersion":"%d"},"future":[null]}`, name, ns, revision)
}

const sentHead = `{"kind":"ConfigMap","apiVersion":"v1",`

// loadSent puts objects into the cache as that server sends them.
func (env *testTier) loadSent(t testing.TB, keys ...string) {
	t.Helper()
	var kvs []feed.Object
	for i, key := range keys {
		revision := int64(i + 1)
		kvs = append(kvs, feed.Object{Key: []byte("/registry/configmaps/" + key), Value: []byte(sentHead + sentConfigMap(key, revision)), Revision: revision})
	}
	loader := env.cache.BeginLoad()
	loader.Add(t.Context(), kvs)
	loader.End(t.Context(), cacheRevision)
}

// deleteObject applies the deletion of an object to the cache.
func (env *watchServer) deleteObject(t *testing.T, key string, revision int64) {
	t.Helper()
	env.cache.Apply(t.Context(), []feed.Object{{Key: []byte("/registry/configmaps/" + key), Revision: revision, Deleted: true}})
}

// verbatim makes the route a verbatim one.
func verbatim(known *apifeed.Surroundings) configChange {
	return func(c *read.RouteConfig) {
		c.Warning = "this version's warning"
		c.Verbatim = &read.Verbatim{Surroundings: func() *apifeed.Surroundings { return known }, Follow: func() {}}
	}
}

// TestVerbatimReads answers with the bytes of a server of another version, and passes on what
// they do not have.
func TestVerbatimReads(t *testing.T) {
	t.Parallel()
	env := newTestTier(t, verbatim(&otherServer), func(c *read.RouteConfig) { c.Watches, c.Hub = true, watch.NewHub(c.Objects.Resource()) })
	env.loadSent(t, "one/a", "one/b", "two/c")
	list := func(revision int, items ...string) string {
		return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d","future":1},"items":[%s]}`+"\n", revision, strings.Join(items, ","))
	}
	a, b, c := "{"+sentConfigMap("one/a", 1), "{"+sentConfigMap("one/b", 2), "{"+sentConfigMap("two/c", 3)
	const table, metadata = "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
	for _, test := range []struct{ target, accept, body, reason string }{
		{listPath, "", list(cacheRevision, a, b, c), ""},
		{listPath, "application/json", list(cacheRevision, a, b, c), ""},
		{listPath + "?resourceVersion=0&limit=2", "*/*", list(cacheRevision, a, b), ""},
		{listPath + "?limit=4&timeout=5s&timeoutSeconds=9&pretty=false", "application/json, text/plain, */*", list(cacheRevision, a, b, c), ""},
		{listOnePath + "?labelSelector=name%3Db", "", list(cacheRevision, b), ""},
		{listOnePath + "?labelSelector=name%3Dabsent", "", list(cacheRevision), ""},
		{objectPath + "?resourceVersion=0", "", sentHead + sentConfigMap("one/a", 1) + "\n", ""},
		{listPath, protobufAccept, "", "accept"}, {objectPath, protobufAccept + ",application/json", "", "accept"},
		{listPath, table + ",application/json", "", "skew-table"}, {objectPath, table, "", "skew-table"},
		{listPath, metadata, "", "skew-metadata"}, {listPath + "?pretty=1", "", "", "skew-indented"},
		{listPath, "application/yaml", "", "accept"}, {listPath, "application/cbor,application/json", "", "accept"},
		{listPath, "text/plain, */*", "", "accept"},
		{listPath + "?unknown=1", "", "", "skew-parameter"}, {objectPath + "?limit=1", "", "", "skew-parameter"},
		{listPath + "?limit=2", "", "", "skew-page"}, {listPath + "?continue=x", "", "", "skew-page"},
		{listPath + "?limit=3", "", "", "skew-page"}, {listPath + "?shardSelector=x", "", "", "skew-shard"},
		{"/api/v1/namespaces/one/configmaps/absent", "", "", "skew-error"}, {listPath + "?limit=x", "", "", "parameter"},
		{listPath + "?watch=1&allowWatchBookmarks=1&other=1", "", "", "skew-parameter"}, {"/api/v1/watch/configmaps", "", "", "path"},
	} {
		before := env.reasons(t)
		header := http.Header{}
		if test.accept != "" {
			header.Set("Accept", test.accept)
		}
		var warned warningRecorder
		w := env.send(t, http.MethodGet, test.target, header, func(ctx context.Context) context.Context { return warning.WithWarningRecorder(ctx, &warned) })
		if test.reason != "" {
			if w.Code != passedOnStatus || env.reasons(t)[test.reason] != before[test.reason]+1 {
				t.Errorf("%s [%s]: status %d, counted %v, want %s", test.target, test.accept, w.Code, env.reasons(t), test.reason)
			}
			continue
		}
		if !slices.Equal(warned, otherServer.Warnings) {
			t.Errorf("%s: warnings %q", test.target, warned)
		}
		if w.Code != http.StatusOK || w.Body.String() != test.body {
			t.Errorf("%s [%s]: status %d, counted %v\ngot  %s\nwant %s", test.target, test.accept, w.Code, env.reasons(t), w.Body, test.body)
		}
	}
}

// TestVerbatimWatch sends events and bookmarks as the other server writes them, and ends
// without a word where that server has to choose the words.
func TestVerbatimWatch(t *testing.T) {
	t.Parallel()
	env := newWatchServer(t, false, verbatim(&otherServer))
	env.loadSent(t, "one/a")
	s := env.watch(t, listPath+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
	env.putValue(t, "one/b", []byte(sentHead+sentConfigMap("one/b", 101)), 101)
	env.deleteObject(t, "one/a", 102)
	for _, want := range []string{
		`{"type":"ADDED","object":` + sentHead + sentConfigMap("one/a", 1) + `}`,
		`{"type":"BOOKMARK","object":` + strings.Replace(string(otherServer.InitialEventsEnd), `"1"`, `"100"`, 1) + `}`,
		`{"type":"ADDED","object":` + sentHead + sentConfigMap("one/b", 101) + `}`,
		`{"type":"DELETED","object":` + sentHead + sentConfigMap("one/a", 102) + `}`,
	} {
		if !s.lines.Scan() || s.lines.Text() != want {
			t.Fatalf("got  %s\nwant %s", s.lines.Text(), want)
		}
	}
	s = env.watch(t, listPath+"?watch=1&allowWatchBookmarks=true&resourceVersion=102&millraceBookmarkAtRevision=102", nil)
	if want := `{"type":"BOOKMARK","object":` + strings.Replace(string(otherServer.Bookmark), `"1"`, `"102"`, 1) + `}`; !s.lines.Scan() || s.lines.Text() != want {
		t.Fatalf("got  %s\nwant %s", s.lines.Text(), want)
	}
	s = env.watch(t, listPath+"?watch=1&resourceVersion=9999", nil)
	if s.lines.Scan() {
		t.Errorf("a watch that cannot go on is sent %s", s.lines.Text())
	}
}

// TestVerbatimBookmarks passes watches on whose bookmarks are not known.
func TestVerbatimBookmarks(t *testing.T) {
	t.Parallel()
	lists := apifeed.Surroundings{EmptyList: otherServer.EmptyList}
	ordinary := lists
	ordinary.Bookmark = otherServer.Bookmark
	const initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	for _, test := range []struct {
		known          *apifeed.Surroundings
		target, reason string
	}{
		{nil, listPath, "loading"}, {nil, listPath + "?watch=1", "loading"},
		{&lists, listPath + "?watch=1&allowWatchBookmarks=1", "skew-bookmark"},
		{&lists, listPath + "?watch=1" + initial, "skew-bookmark"},
		{&ordinary, listPath + "?watch=1&allowWatchBookmarks=1" + initial, "skew-bookmark"},
	} {
		env := newWatchServer(t, false, verbatim(test.known))
		env.loadSent(t, "one/a")
		if s := env.watch(t, test.target, nil); s.StatusCode != passedOnStatus || env.reasons(t)[test.reason] != 1 {
			t.Errorf("%s: status %d, counted %v, want %s", test.target, s.StatusCode, env.reasons(t), test.reason)
		}
	}
}

// TestVerbatimProtobuf answers clients that ask for protobuf first with the bytes that the
// other server has sent in protobuf.
func TestVerbatimProtobuf(t *testing.T) {
	t.Parallel()
	encode := func(obj runtime.Object) []byte {
		var out bytes.Buffer
		if err := protobuf.NewSerializer(nil, nil).Encode(obj, &out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	object := func(name, revision string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "one", ResourceVersion: revision}, Data: map[string]string{"a": "b"},
		}
	}
	list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	known, followed := &apifeed.Surroundings{EmptyList: encode(list), Bookmark: encode(object("", "1"))}, 0
	inProtobuf := newTestTier(t, func(c *read.RouteConfig) {
		c.Verbatim = &read.Verbatim{Format: sentobject.Protobuf, Surroundings: func() *apifeed.Surroundings { return known }, Follow: func() { followed++ }}
	})
	loader := inProtobuf.cache.BeginLoad()
	loader.Add(t.Context(), []feed.Object{{Key: []byte("/registry/configmaps/one/a"), Value: encode(object("a", "7")), Revision: 7}})
	loader.End(t.Context(), cacheRevision)
	env := newTestTier(t, verbatim(&otherServer), func(c *read.RouteConfig) { c.Verbatim.Protobuf = inProtobuf.route })
	env.loadSent(t, "one/a")
	item := *object("a", "7")
	item.TypeMeta = metav1.TypeMeta{}
	list.ResourceVersion, list.Items = strconv.Itoa(cacheRevision), []corev1.ConfigMap{item}
	for target, want := range map[string][]byte{listPath: encode(list), objectPath: encode(object("a", "7"))} {
		w := env.send(t, http.MethodGet, target, http.Header{"Accept": {protobufAccept + ",application/json"}})
		if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), want) || w.Header().Get("Content-Type") != protobufAccept {
			t.Errorf("%s: status %d, counted %v\ngot  %q\nwant %q", target, w.Code, env.reasons(t), w.Body, want)
		}
	}
	if followed != 2 {
		t.Errorf("protobuf was to be followed %d times, want 2", followed)
	}
	if w := env.send(t, http.MethodGet, listPath, nil); !strings.HasPrefix(w.Body.String(), "{") {
		t.Errorf("without Accept, the answer is %s", w.Body)
	}
}

// TestSkewedCustomResources encodes custom resources as without skew, and passes on what
// servers of different versions may do differently.
func TestSkewedCustomResources(t *testing.T) {
	t.Parallel()
	differs, watchLists := true, false
	env := newWatchServer(t, false, func(c *read.RouteConfig) {
		c.Shared.Skew = &read.Skew{Differs: func() bool { return differs }, WatchLists: func() bool { return watchLists }}
	})
	env.load(t, "one/a", "one/b")
	send := func(target, accept string) int {
		return env.send(t, http.MethodGet, target, http.Header{"Accept": {accept}}).Code
	}
	const watchList = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
	for _, test := range []struct{ target, accept, reason string }{
		{listPath, "application/json", ""}, {listPath + "?pretty=1", "", ""}, {objectPath, "*/*", ""},
		{listPath, "application/json;as=Table;v=v1;g=meta.k8s.io", "skew-table"}, {listPath, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "skew-metadata"},
		{listPath + "?limit=1", "", "skew-page"}, {listPath + "?shardSelector=x", "", "skew-shard"}, {listPath + "?unknown=1", "", "skew-parameter"},
		{objectPath + "bsent", "", "skew-error"}, {listPath, protobufAccept, "accept"}, {listPath + watchList, "", "skew-bookmark"},
	} {
		before := env.reasons(t)[test.reason]
		code := send(test.target, test.accept)
		if passed := code == passedOnStatus; passed != (test.reason != "") || passed && env.reasons(t)[test.reason] != before+1 {
			t.Errorf("%s [%s]: status %d, counted %v, want %q", test.target, test.accept, code, env.reasons(t), test.reason)
		}
	}
	watchLists = true
	if s := env.watch(t, listPath+watchList, nil); s.StatusCode != http.StatusOK {
		t.Errorf("a watch-list: status %d", s.StatusCode)
	}
	differs = false
	if code := send(listPath+"?limit=1&unknown=1", protobufAccept); code != http.StatusOK {
		t.Errorf("without skew: status %d", code)
	}
}
