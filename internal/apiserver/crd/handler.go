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
	"k8s.io/apiserver/pkg/admission"
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

// longRunning reports whether a request is a watch.
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
	c := &resourceRequest{info: info}
	u, err := h.server.use(req.Context(), row.Name, c.prepare)
	switch {
	case errors.Is(err, errNotServed):
		h.server.next.ServeHTTP(w, req)
	case apierrors.IsTooManyRequests(err):
		h.fail(w, req, gv, err)
	case err != nil:
		h.server.cfg.Logger.Error("Custom resource cannot be served", "name", row.Name, "version", info.APIVersion, "err", err)
		h.fail(w, req, gv, apierrors.NewInternalError(errors.New("error resolving resource")))
	default:
		defer u.release()
		h.serve(w, req, c)
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

// resourceRequest is a request and the state that answers it.
type resourceRequest struct {
	info *request.RequestInfo
	*usage
	version *servedVersion
	// writer is nil for requests that need schemas alone.
	writer *versionWriter
}

// prepare makes the version that answers the request, with all that has to be compiled.
func (c *resourceRequest) prepare(u *usage) error {
	if !u.row.serves(c.info) {
		return errNotServed
	}
	c.usage = u
	var err error
	if c.version, err = u.served.version(c.info.APIVersion); err != nil {
		return err
	}
	if _, err = u.served.schemas(); err != nil {
		return err
	}
	c.writer = nil
	if c.needsWriter() {
		c.writer, err = u.served.writer(c.version)
	}
	return err
}

// needsWriter reports whether the request is answered by a versionWriter: it creates or changes
// an object, or is about a subresource that the version has.
func (c *resourceRequest) needsWriter() bool {
	row := c.row.Version(c.info.APIVersion)
	switch c.info.Subresource {
	case "":
		return isWrite(c.info.Verb)
	case "status":
		return row.Status
	case "scale":
		return row.Scale
	}
	return false
}

// serve answers a request. A watch gives its reference back immediately, because it ends with
// the servedDefinition.
func (h *handler) serve(w http.ResponseWriter, req *http.Request, c *resourceRequest) {
	if longRunning(req, c.info) {
		c.release()
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
	w := c.writer
	switch {
	case c.info.Subresource == "" && w == nil:
		return h.readHandler(c)
	case c.info.Subresource == "":
		return h.writeHandler(req, c, w)
	case c.info.Subresource == "status" && w != nil && w.Status != nil:
		return h.subresourceHandler(c, w.Status, w.status)
	case c.info.Subresource == "scale" && w != nil && w.Scale != nil:
		return h.subresourceHandler(c, w.Scale, w.scale)
	}
	return nil, apierrors.NewNotFound(c.groupResource(), c.info.Name)
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

// establishedDelay is how long a create waits if its definition was established less than that
// ago. Afterwards the other servers of the cluster serve the definition, too. If the
// definition is deleted meanwhile the create is forbidden, where Kubernetes lets it pass.
const establishedDelay = 2 * time.Second

// writeHandler returns the handler of a verb that also needs the versionWriter.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.serveResource; compare at each upgrade.
func (h *handler) writeHandler(req *http.Request, c *resourceRequest, w *versionWriter) (http.HandlerFunc, error) {
	switch c.info.Verb {
	case "create":
		if time.Since(c.row.EstablishedAt) < establishedDelay {
			select {
			case <-time.After(establishedDelay):
			case <-req.Context().Done():
			}
		}
		return handlers.CreateResource(w.CustomResource, w.scope, h.admissionFor(c)), nil
	case "update":
		return handlers.UpdateResource(w.CustomResource, w.scope, h.server.admission), nil
	}
	return handlers.PatchResource(w.CustomResource, w.scope, h.admissionFor(c), patchTypes()), nil
}

// admissionFor returns the admission of a request that may create an object. It forbids that if
// the definition is being deleted.
func (h *handler) admissionFor(c *resourceRequest) admission.Interface {
	if c.admitCreation(); c.creates {
		return h.server.admission
	}
	return createForbidding{h.server.admission}
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

// patchTypes returns the types of patches for objects without Go types. A strategic merge patch
// would need a Go type.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.ServeHTTP; compare at each upgrade.
func patchTypes() []string {
	known := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		known = append(known, string(types.ApplyCBORPatchType))
	}
	return known
}
