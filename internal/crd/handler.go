package crd

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/rest"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/warning"
)

// handler answers for custom resources, and passes on the rest. Their discovery is
// package discovery's.
type handler struct{ server *Server }

// longRunning are the requests that do not end by themselves.
var longRunning = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString())

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		h.fail(w, req, schema.GroupVersion{}, apierrors.NewInternalError(errors.New("no RequestInfo found in the context")))
		return
	}
	if !info.IsResourceRequest {
		h.server.next.ServeHTTP(w, req)
		return
	}
	row := h.findRow(req, info)
	if row == nil {
		h.server.next.ServeHTTP(w, req)
		return
	}
	gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	now, v, err := h.resolve(req, info)
	switch {
	case errors.Is(err, errNotServed):
		h.server.next.ServeHTTP(w, req)
	case err != nil:
		utilruntime.HandleError(fmt.Errorf("serve %s: %w", row.Name, err))
		h.fail(w, req, gv, apierrors.NewInternalError(errors.New("error resolving resource")))
	default:
		h.serve(w, req, &resourceRequest{info: info, row: row, served: now, version: v})
	}
}

// fail answers with an error.
func (*handler) fail(w http.ResponseWriter, req *http.Request, gv schema.GroupVersion, err error) {
	responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, gv, w, req)
}

// findRow returns the row of the definition that a request is for, nil if it is for
// none that is served. A client that has just seen a definition in a watch may be
// ahead of the rows: who finds nothing waits until they have caught up.
func (h *handler) findRow(req *http.Request, info *request.RequestInfo) *Definition {
	catalog := h.server.catalog
	name := info.Resource + "." + info.APIGroup
	if row := catalog.Get(name); row.serves(info) {
		return row
	}
	if catalog.CatchUp(req.Context()) != nil {
		return nil
	}
	if row := catalog.Get(name); row.serves(info) {
		return row
	}
	return nil
}

// active reports whether objects are served in a version. The definition may be
// nil.
func (d *Definition) active(version string) bool {
	return d != nil && (d.NamesAccepted || d.Established) && d.Served(version)
}

// serves reports whether a request is for the definition, which may be nil.
func (d *Definition) serves(info *request.RequestInfo) bool {
	switch {
	case !d.active(info.APIVersion):
		return false
	case info.Namespace != "":
		return d.Namespaced()
	}
	return !d.Namespaced() || info.Verb == "list" || info.Verb == "watch"
}

// errNotServed says that nothing is served under a version, not any more perhaps.
var errNotServed = errors.New("version is not served")

// maxVersionAttempts bounds how often a definition may change while a request is looked at.
const maxVersionAttempts = 10

// resolve returns how the version of a request is served, with its schemas made.
func (h *handler) resolve(req *http.Request, info *request.RequestInfo) (now *servedDefinition, v *version, err error) {
	for range maxVersionAttempts {
		now = h.server.servedDefinition(info.Resource + "." + info.APIGroup)
		if now == nil || !now.def.Served(info.APIVersion) {
			return nil, nil, errNotServed
		}
		if v, err = now.version(info.APIVersion); err == nil {
			_, err = now.schemas()
		}
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil, errNotServed
		case !errors.Is(err, errChanged):
			return now, v, err
		}
		// The rows are behind the definition.
		if err := h.server.catalog.CatchUp(req.Context()); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, err
}

// resourceRequest is a request and what serves it.
type resourceRequest struct {
	info *request.RequestInfo
	// row has the conditions as of now.
	row     *Definition
	served  *servedDefinition
	version *version
}

func (h *handler) serve(w http.ResponseWriter, req *http.Request, c *resourceRequest) {
	if c.version.warning != "" {
		warning.AddWarning(req.Context(), "", c.version.warning)
	}
	if !longRunning(req, c.info) {
		c.served.requests.Add(1)
		defer c.served.requests.Add(-1)
	}
	answer, err := h.handlerFor(req, c)
	if err != nil {
		h.fail(w, req, schema.GroupVersion{Group: c.info.APIGroup, Version: c.info.APIVersion}, err)
		return
	}
	deprecated := c.served.def.Version(c.info.APIVersion).Deprecated
	counted := metrics.InstrumentHandlerFunc(strings.ToUpper(c.info.Verb), c.info.APIGroup, c.info.APIVersion, c.info.Resource, c.info.Subresource,
		metrics.CleanScope(c.info), metrics.APIServerComponent, deprecated, "", answer)
	genericfilters.WithWaitGroup(counted, longRunning, &c.served.draining).ServeHTTP(w, req)
}

// handlerFor returns what answers a request.
func (h *handler) handlerFor(req *http.Request, c *resourceRequest) (http.HandlerFunc, error) {
	row := c.row.Version(c.info.APIVersion)
	switch {
	case c.info.Subresource == "" && !isWrite(c.info.Verb):
		return h.readHandler(c)
	case c.info.Subresource == "":
	case c.info.Subresource == "status" && row.Status:
	case c.info.Subresource == "scale" && row.Scale:
	default:
		return nil, apierrors.NewNotFound(c.gr(), c.info.Name)
	}
	writer, err := c.served.writer(c.version)
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("serve %s: %w", c.row.Name, err))
		return nil, apierrors.NewInternalError(errors.New("error resolving resource"))
	}
	switch c.info.Subresource {
	case "":
		return h.writeHandler(req, c, writer)
	case "status":
		if writer.Status == nil {
			return nil, apierrors.NewNotFound(c.gr(), c.info.Name)
		}
		return h.subresourceHandler(c, writer.Status, writer.status)
	}
	if writer.Scale == nil {
		return nil, apierrors.NewNotFound(c.gr(), c.info.Name)
	}
	return h.subresourceHandler(c, writer.Scale, writer.scale)
}

func (c *resourceRequest) gr() schema.GroupResource {
	return schema.GroupResource{Group: c.info.APIGroup, Resource: c.info.Resource}
}

func (c *resourceRequest) notSupported() error {
	return apierrors.NewMethodNotSupported(c.gr(), c.info.Verb)
}

func isWrite(verb string) bool { return verb == "create" || verb == "update" || verb == "patch" }

// readHandler answers what needs no more than schemas.
func (h *handler) readHandler(c *resourceRequest) (http.HandlerFunc, error) {
	storage, scope := c.version.registry, c.version.scope
	switch c.info.Verb {
	case "get":
		return handlers.GetResource(storage, scope), nil
	case "list":
		return handlers.ListResource(storage, storage, scope, false, h.server.timeouts.minWatch), nil
	case "watch":
		return handlers.ListResource(storage, storage, scope, true, h.server.timeouts.minWatch), nil
	case "delete":
		return handlers.DeleteResource(storage, true, scope, h.server.admission), nil
	case "deletecollection":
		return handlers.DeleteCollection(storage, true, scope, h.server.admission), nil
	}
	return nil, c.notSupported()
}

// establishedDelay is how long a definition has been established before the first object
// is made. By then the other servers know of it too.
const establishedDelay = 2 * time.Second

func (h *handler) writeHandler(req *http.Request, c *resourceRequest, w *versionWriter) (http.HandlerFunc, error) {
	admit := h.server.admission
	if c.row.Terminating {
		admit = createForbidding{admit}
	}
	switch c.info.Verb {
	case "create":
		if time.Since(c.row.EstablishedAt) < establishedDelay {
			select {
			case <-time.After(establishedDelay):
			case <-req.Context().Done():
			}
		}
		return handlers.CreateResource(w.CustomResource, w.scope, admit), nil
	case "update":
		return handlers.UpdateResource(w.CustomResource, w.scope, h.server.admission), nil
	}
	return handlers.PatchResource(w.CustomResource, w.scope, admit, patchTypes()), nil
}

// subresourceStorage is what the handlers of subresources need.
type subresourceStorage interface {
	rest.Getter
	rest.Patcher
}

func (h *handler) subresourceHandler(c *resourceRequest, storage subresourceStorage, scope *handlers.RequestScope) (http.HandlerFunc, error) {
	switch c.info.Verb {
	case "get":
		return handlers.GetResource(storage, scope), nil
	case "update":
		return handlers.UpdateResource(storage, scope, h.server.admission), nil
	case "patch":
		return handlers.PatchResource(storage, scope, h.server.admission, patchTypes()), nil
	}
	return nil, c.notSupported()
}

// patchTypes are those of objects without Go types: they have no strategic merge.
func patchTypes() []string {
	known := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		known = append(known, string(types.ApplyCBORPatchType))
	}
	return known
}
