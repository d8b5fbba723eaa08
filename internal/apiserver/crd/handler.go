package crd

import (
	"errors"
	"net/http"
	"strings"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// handler answers requests for custom resources, and passes on all others. Package
// discovery answers for their discovery.
type handler struct{ server *Server }

// longRunning reports requests that do not end by themselves.
var longRunning = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"), sets.NewString())

// ServeHTTP implements http.Handler.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.ServeHTTP; compare at each upgrade.
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
	current, v, err := h.resolve(req, info)
	switch {
	case errors.Is(err, errNotServed):
		h.server.next.ServeHTTP(w, req)
	case err != nil:
		h.server.cfg.Logger.Error("Custom resource cannot be served", "name", row.Name, "version", info.APIVersion, "err", err)
		h.fail(w, req, gv, apierrors.NewInternalError(errors.New("error resolving resource")))
	default:
		h.serve(w, req, &resourceRequest{info: info, row: row, served: current, version: v})
	}
}

// fail answers with an error.
func (*handler) fail(w http.ResponseWriter, req *http.Request, gv schema.GroupVersion, err error) {
	responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, gv, w, req)
}

// findRow returns the row of the definition that serves a request, or nil if none does.
// A client may have seen a definition in a watch before the catalog has its row. So if no
// row is found, findRow waits until the catalog has caught up, and looks again.
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

// active reports whether objects are served in a version. d may be nil.
func (d *Definition) active(version string) bool {
	return d != nil && (d.NamesAccepted || d.Established) && d.Served(version)
}

// serves reports whether the definition serves a request. d may be nil.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.ServeHTTP; compare at each upgrade.
func (d *Definition) serves(info *request.RequestInfo) bool {
	switch {
	case !d.active(info.APIVersion):
		return false
	case info.Namespace != "":
		return d.Namespaced()
	}
	return !d.Namespaced() || info.Verb == "list" || info.Verb == "watch"
}

// errNotServed says that a version is not served, or not any longer.
var errNotServed = errors.New("version is not served")

// maxVersionAttempts bounds how often resolve tries again because a definition has changed.
const maxVersionAttempts = 10

// resolve returns the servedDefinition and the version that answer a request, with schemas
// compiled. Unless it returns an error, the caller must release the reference that it
// gets to the servedDefinition.
func (h *handler) resolve(req *http.Request, info *request.RequestInfo) (*servedDefinition, *version, error) {
	var err error
	for range maxVersionAttempts {
		var current *servedDefinition
		var v *version
		if current, v, err = h.tryResolve(info); err == nil {
			return current, v, nil
		}
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil, errNotServed
		case !errors.Is(err, errChanged):
			return nil, nil, err
		}
		// The rows are behind the definition.
		if err := h.server.catalog.CatchUp(req.Context()); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, err
}

// tryResolve is resolve for one attempt. It returns errChanged if the definition has
// changed and its row has not.
func (h *handler) tryResolve(info *request.RequestInfo) (current *servedDefinition, v *version, err error) {
	current = h.server.acquire(info.Resource + "." + info.APIGroup)
	if current == nil {
		return nil, nil, errNotServed
	}
	resolved := false
	defer func() {
		if !resolved { // an error or a panic
			current.references.release()
		}
	}()
	if !current.def.Served(info.APIVersion) {
		return nil, nil, errNotServed
	}
	if v, err = current.version(info.APIVersion); err != nil {
		return nil, nil, err
	}
	if _, err = current.schemas(); err != nil {
		return nil, nil, err
	}
	resolved = true
	return current, v, nil
}

// resourceRequest is a request and the state that answers it.
type resourceRequest struct {
	info *request.RequestInfo
	// row is newer than served.def: it has the conditions of now.
	row *Definition
	// served comes with a reference, which handler.serve releases.
	served  *servedDefinition
	version *version
}

// serve answers a request. It holds the reference to the servedDefinition until then. A
// watch holds none, because it ends with the servedDefinition.
func (h *handler) serve(w http.ResponseWriter, req *http.Request, c *resourceRequest) {
	if longRunning(req, c.info) {
		c.served.references.release()
	} else {
		defer c.served.references.release()
	}
	if c.version.warning != "" {
		warning.AddWarning(req.Context(), "", c.version.warning)
	}
	answer, err := h.handlerFor(req, c)
	if err != nil {
		h.fail(w, req, schema.GroupVersion{Group: c.info.APIGroup, Version: c.info.APIVersion}, err)
		return
	}
	deprecated := c.served.def.Version(c.info.APIVersion).Deprecated
	metrics.InstrumentHandlerFunc(strings.ToUpper(c.info.Verb), c.info.APIGroup, c.info.APIVersion, c.info.Resource, c.info.Subresource,
		metrics.CleanScope(c.info), metrics.APIServerComponent, deprecated, "", answer).ServeHTTP(w, req)
}

// handlerFor returns the handler of Kubernetes that answers a request.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.ServeHTTP; compare at each upgrade.
func (h *handler) handlerFor(req *http.Request, c *resourceRequest) (http.HandlerFunc, error) {
	row := c.row.Version(c.info.APIVersion)
	switch {
	case c.info.Subresource == "" && !isWrite(c.info.Verb):
		return h.readHandler(c)
	case c.info.Subresource == "":
	case c.info.Subresource == "status" && row.Status:
	case c.info.Subresource == "scale" && row.Scale:
	default:
		return nil, apierrors.NewNotFound(c.groupResource(), c.info.Name)
	}
	writer, err := c.served.writer(c.version)
	if err != nil {
		h.server.cfg.Logger.Error("Custom resource cannot be written", "name", c.row.Name, "version", c.info.APIVersion, "err", err)
		return nil, apierrors.NewInternalError(errors.New("error resolving resource"))
	}
	switch c.info.Subresource {
	case "":
		return h.writeHandler(req, c, writer)
	case "status":
		if writer.Status == nil {
			return nil, apierrors.NewNotFound(c.groupResource(), c.info.Name)
		}
		return h.subresourceHandler(c, writer.Status, writer.status)
	}
	if writer.Scale == nil {
		return nil, apierrors.NewNotFound(c.groupResource(), c.info.Name)
	}
	return h.subresourceHandler(c, writer.Scale, writer.scale)
}

func (c *resourceRequest) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: c.info.APIGroup, Resource: c.info.Resource}
}

func (c *resourceRequest) notSupported() error {
	return apierrors.NewMethodNotSupported(c.groupResource(), c.info.Verb)
}

func isWrite(verb string) bool { return verb == "create" || verb == "update" || verb == "patch" }

// readHandler returns the handler of a verb that needs schemas alone.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.serveResource; compare at each upgrade.
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

// establishedDelay is the wait of creates while a definition has been established for less
// than that. After it the other servers of the cluster serve the definition, too.
const establishedDelay = 2 * time.Second

// writeHandler returns the handler of a verb that also needs the versionWriter.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.serveResource; compare at each upgrade.
func (h *handler) writeHandler(req *http.Request, c *resourceRequest, w *versionWriter) (http.HandlerFunc, error) {
	admit := h.server.admission
	if c.row.Deleting || c.row.Terminating {
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

// subresourceStorage is the storage of a subresource, as Kubernetes' handlers need it.
type subresourceStorage interface {
	rest.Getter
	rest.Patcher
}

// subresourceHandler returns the handler of a verb on a status or a scale.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.serveStatus; compare at each upgrade.
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

// patchTypes are the patches of objects without Go types: strategic merge needs one.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.ServeHTTP; compare at each upgrade.
func patchTypes() []string {
	known := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		known = append(known, string(types.ApplyCBORPatchType))
	}
	return known
}
