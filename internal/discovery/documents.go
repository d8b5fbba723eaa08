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

	"github.com/millrace/millrace/internal/crd"
)

// Documents holds what is known of all groups and the aggregated document of
// them. Kubernetes' own makes the whole document anew after each change: it
// copies, sorts and encodes all groups, and encodes them again for each client.
// Here the group that changed loses its encoded item and the document its
// validity; who asks next encodes that item and joins all of them. A burst of
// changes that nobody looks at costs no encoding at all. What it costs is the
// bytes of all groups twice, in JSON and in protobuf, and of the whole document
// in each form that was asked for, plain and compressed.
//
// Writers and who makes a document hold the lock; readers of a valid document
// take none.
type Documents struct {
	serializer runtime.NegotiatedSerializer
	frame      frame
	instrument http.HandlerFunc
	// custom groups are taken over when a document is made.
	custom *Custom

	// generation counts changes, current says which it has seen.
	generation atomic.Uint64
	current    atomic.Pointer[versionedDocument]
	callback   atomic.Pointer[func()]
	builtin    atomic.Pointer[builtin]
	// lastAccept are the words by which a client last asked for the aggregated document.
	lastAccept atomic.Pointer[string]

	mu struct {
		sync.Mutex
		groups map[string]*group
	}
}

// versionedDocument is the document as of a generation.
type versionedDocument struct {
	generation uint64
	*document
}

// newDocuments makes the documents of no groups. path names the endpoint in
// Kubernetes' metrics.
func newDocuments(path string, custom *Custom) (*Documents, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apidiscoveryv2.AddToScheme, apidiscoveryv2beta1.AddToScheme, apidiscoveryv2conversion.RegisterConversions,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make discovery scheme: %w", err)
		}
	}
	empty := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
	empty.SetGroupVersionKind(apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	frame, err := newFrame(empty, 2)
	if err != nil {
		return nil, err
	}
	d := &Documents{serializer: serializer.NewCodecFactory(scheme), frame: frame, custom: custom}
	d.mu.groups = map[string]*group{}
	d.builtin.Store(&builtin{})
	d.instrument = metrics.InstrumentHandlerFunc(request.MethodGet, "", "", "", path, "", metrics.APIServerComponent, false, "", d.serve)
	return d, nil
}

// currentDocument returns the document if nothing has changed since it was made, or nil.
func (d *Documents) currentDocument() *document {
	if now := d.current.Load(); now != nil && now.generation == d.generation.Load() {
		return now.document
	}
	return nil
}

// document returns the newest one. All who ask for it after a change wait for
// one of them to make it.
func (d *Documents) document() *document {
	if now := d.currentDocument(); now != nil {
		return now
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// What changes from here on is seen by the next.
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

// itemsLocked returns all groups in Kubernetes' order.
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

// applyCustomLocked takes over the custom groups that changed.
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

// customPriority is that of custom resources.
var customPriority = priority{group: crd.GroupPriority, version: crd.VersionPriority}

func (d *Documents) groupLocked(name string) *group {
	g := d.mu.groups[name]
	if g == nil {
		g = newGroup(name)
		d.mu.groups[name] = g
	}
	return g
}

func (d *Documents) dropIfEmptyLocked(g *group) {
	if g.empty() {
		delete(d.mu.groups, g.name)
	}
}

// invalidate makes the document invalid.
func (d *Documents) invalidate() {
	d.generation.Add(1)
	if callback := d.callback.Load(); callback != nil {
		(*callback)()
	}
}

// serve answers requests for the aggregated document. Others do not come here:
// who calls it has looked at what the client accepts.
func (d *Documents) serve(w http.ResponseWriter, req *http.Request) {
	if known := settledOf(req.Context()); known != nil {
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
