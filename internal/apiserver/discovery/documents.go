package discovery

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apidiscoveryv2conversion "k8s.io/apiserver/pkg/apis/apidiscovery/v2"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/apiserver/crd"
)

// Documents holds the groups of all sources, and the aggregated document of them.
//
// Kubernetes' manager rebuilds the document after each change: it copies, sorts and encodes
// all groups, and encodes them again for each client. Here a change only drops the encoded
// item of its group and invalidates the document. The next reader encodes that item and joins
// all items. So a burst of changes without readers costs no encoding.
//
// In memory it costs the bytes of all groups twice, as JSON and as protobuf. It also costs
// the bytes of the whole document in each form that was asked for, plain and compressed.
//
// Writers hold the lock, and so does the reader that makes a document. That reader reads
// what the lock guards, so a separate lock or singleflight could not replace it. Readers of
// a current document take no lock.
type Documents struct {
	serializer runtime.NegotiatedSerializer
	envelope   listEnvelope
	// instrument is serve, with Kubernetes' metrics of requests.
	instrument http.HandlerFunc
	// custom has the custom groups. They are copied into groups when a document is made.
	custom *Custom

	// generation counts changes. The document in current is valid while its generation is
	// the same.
	generation atomic.Uint64
	current    atomic.Pointer[versionedDocument]
	// callback is called after each change, unless it is nil.
	callback atomic.Pointer[func()]
	// builtin is derived from mu.groups. It is never nil.
	builtin atomic.Pointer[builtin]
	// lastAccept is the last Accept header that was found to accept the document.
	lastAccept atomic.Pointer[string]

	mu struct {
		sync.Mutex
		groups map[string]*group
	}
}

// versionedDocument is the document with the generation that it was made at.
type versionedDocument struct {
	generation uint64
	*document
}

// newDocuments makes Documents without groups. path is the endpoint's name in Kubernetes'
// metrics.
func newDocuments(path string, custom *Custom) (*Documents, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apidiscoveryv2.AddToScheme, apidiscoveryv2beta1.AddToScheme, apidiscoveryv2conversion.RegisterConversions,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make discovery scheme: %w", err)
		}
	}
	const itemsField = 2
	empty := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
	empty.SetGroupVersionKind(apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	envelope, err := newListEnvelope(empty, itemsField)
	if err != nil {
		return nil, err
	}
	d := &Documents{serializer: serializer.NewCodecFactory(scheme), envelope: envelope, custom: custom}
	d.mu.groups = map[string]*group{}
	d.builtin.Store(&builtin{})
	d.instrument = metrics.InstrumentHandlerFunc(request.MethodGet, "", "", "", path, "", metrics.APIServerComponent, false, "", d.serve)
	return d, nil
}

// currentDocument returns the document, or nil if there was a change since it was made.
func (d *Documents) currentDocument() *document {
	if current := d.current.Load(); current != nil && current.generation == d.generation.Load() {
		return current.document
	}
	return nil
}

// document returns the current document. After a change its first reader makes it, and
// the others wait for the lock.
func (d *Documents) document() *document {
	if current := d.currentDocument(); current != nil {
		return current
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// A change from here on invalidates the document that is made here.
	generation := d.generation.Load()
	last := d.current.Load()
	if last != nil && last.generation == generation {
		return last.document
	}
	d.applyCustomLocked()
	items := d.itemsLocked()
	if last != nil && slices.Equal(last.items, items) {
		d.current.Store(&versionedDocument{generation, last.document})
		return last.document
	}
	made := newDocument(items)
	d.current.Store(&versionedDocument{generation, made})
	return made
}

// itemsLocked returns the items of all groups in Kubernetes' order.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.calculateAPIGroupsLocked; compare at each upgrade.
func (d *Documents) itemsLocked() []*item {
	items := make([]*item, 0, len(d.mu.groups))
	for _, g := range d.mu.groups {
		if item := g.encodedItem(); item != nil {
			items = append(items, item)
		}
	}
	slices.SortFunc(items, func(a, b *item) int {
		if a.priority != b.priority {
			return cmp.Compare(b.priority, a.priority)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return items
}

// applyCustomLocked copies the custom groups that have changed into the groups.
func (d *Documents) applyCustomLocked() {
	for _, name := range d.custom.takeTouched() {
		g := d.groupLocked(name)
		versions := d.custom.versions(name)
		for key := range g.versions {
			if key.source == aggregated.CRDSource && !slices.ContainsFunc(versions, func(v apidiscoveryv2.APIVersionDiscovery) bool { return v.Version == key.version }) {
				g.remove(key.source, key.version)
			}
		}
		for _, v := range versions {
			g.add(aggregated.CRDSource, v)
			g.prioritize(aggregated.CRDSource, v.Version, customPriority)
		}
		d.dropIfEmptyLocked(g)
	}
}

// customPriority is the priority of custom resources' versions.
var customPriority = priority{group: crd.GroupPriority, version: crd.VersionPriority}

// groupLocked returns a group, made now if there is none.
func (d *Documents) groupLocked(name string) *group {
	g := d.mu.groups[name]
	if g == nil {
		g = newGroup(name)
		d.mu.groups[name] = g
	}
	return g
}

// dropIfEmptyLocked drops a group about which no source says anything.
func (d *Documents) dropIfEmptyLocked(g *group) {
	if g.empty() {
		delete(d.mu.groups, g.name)
	}
}

// invalidate makes the next reader make the document again, and calls the callback. Any
// goroutine may call it, with or without the lock.
func (d *Documents) invalidate() {
	d.generation.Add(1)
	if callback := d.callback.Load(); callback != nil {
		(*callback)()
	}
}

// serve answers a request for the aggregated document. The caller must have checked that
// the client accepts it.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager.serveHTTP; compare at each upgrade.
func (d *Documents) serve(w http.ResponseWriter, req *http.Request) {
	if known := notModifiedDocument(req.Context()); known != nil {
		unmodified(w.Header(), known.quoted, req)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	n, err := negotiate(req, d.serializer, aggregated.DiscoveryEndpointRestrictions)
	if err != nil || !aggregated.IsAggregatedDiscoveryGVK(&n.as) {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	d.document().serve(n, d, w, req)
}
