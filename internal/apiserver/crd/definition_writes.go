package crd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/millrace/millrace/internal/apiserver/crd/definitioncodec"
	"github.com/millrace/millrace/internal/tier/storage"
)

// definitionWrites answers the two requests that installing a definition takes: its
// creation, and the controller's writes of its status. Handlers and storage are
// Kubernetes'. They do not get the schemas where they would only copy and convert them,
// which costs Kubernetes' routes much time and memory. All other requests for definitions
// are left to those routes.
//
// It also bounds the bytes of definitions that are created, changed or deleted at a time, here
// or by Kubernetes' routes. Writes of the status are not bounded.
type definitionWrites struct {
	create, status http.HandlerFunc
	limiter        limiter
	// size returns the bytes of a stored definition.
	size func(name string) int64
}

const definitionsName = "customresourcedefinitions"

// newDefinitionWrites makes the routes over the storage of definitions. getter has made that
// storage's options. models are the OpenAPI types of definitions, for the manager of fields.
func (s *Server) newDefinitionWrites(definitions *customresourcedefinition.REST, getter generic.RESTOptionsGetter, models map[string]*spec.Schema) (*definitionWrites, error) {
	outlined, err := openOutlines(definitions, getter)
	if err != nil {
		return nil, fmt.Errorf("make storage of outlines: %w", err)
	}
	types, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		return nil, err
	}
	status := customresourcedefinition.NewStatusREST(apiextensionsapiserver.Scheme, outlined)
	creation, err := s.definitionScope("", definitions, types, schemalessConvertor{runtime.UnsafeObjectConvertor(apiextensionsapiserver.Scheme)})
	if err != nil {
		return nil, err
	}
	update, err := s.definitionScope("status", status, types, runtime.UnsafeObjectConvertor(apiextensionsapiserver.Scheme))
	if err != nil {
		return nil, err
	}
	update.Convertor = completingConvertor{apiextensionsapiserver.Scheme}
	var admit admission.Interface
	if s.admission != nil {
		admit = statusAdmission{s.admission}
	}
	counted := func(verb, subresource string, h http.HandlerFunc) http.HandlerFunc {
		gv := apiextensionsv1.SchemeGroupVersion
		return metrics.InstrumentHandlerFunc(verb, gv.Group, gv.Version, definitionsName, subresource, "resource", metrics.APIServerComponent, false, "", h)
	}
	// A handler is made for each request: making one wraps admission in state of that
	// request.
	return &definitionWrites{
		limiter: newLimiter(), size: s.catalog.size,
		create: counted("POST", "", func(w http.ResponseWriter, req *http.Request) {
			handlers.CreateResource(definitions, creation, s.admission)(w, req)
		}),
		status: counted("PUT", "status", func(w http.ResponseWriter, req *http.Request) {
			handlers.UpdateResource(status, update, admit)(w, req)
		}),
	}, nil
}

// openOutlines makes a storage of the same definitions that reads and writes them as
// outlines (definitioncodec.OutlineCodec).
func openOutlines(definitions *customresourcedefinition.REST, getter generic.RESTOptionsGetter) (*customresourcedefinition.REST, error) {
	store, ok := definitions.Storage.Storage.(*storage.Store)
	if !ok {
		return nil, fmt.Errorf("got a %T", definitions.Storage.Storage)
	}
	options, err := getter.GetRESTOptions(apiextensions.Resource(definitionsName), definitions.New())
	if err != nil {
		return nil, err
	}
	outlines, err := store.With(definitioncodec.OutlineCodec{Codec: options.StorageConfig.Codec})
	if err != nil {
		return nil, err
	}
	return customresourcedefinition.NewREST(apiextensionsapiserver.Scheme, sharedOptions{getter, outlines})
}

// definitionScope makes the scope that Kubernetes' installer makes for definitions, or for
// a subresource of them. convertor is for the manager of fields.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
func (s *Server) definitionScope(subresource string, storage rest.ResetFieldsStrategy, types managedfields.TypeConverter, convertor runtime.ObjectConvertor) (*handlers.RequestScope, error) {
	scheme, kind := apiextensionsapiserver.Scheme, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	tables := rest.NewDefaultTableConvertor(apiextensions.Resource(definitionsName))
	scope := &handlers.RequestScope{
		Namer:          handlers.ContextBasedNaming{Namer: runtime.Namer(meta.NewAccessor()), ClusterScoped: true},
		Serializer:     apiextensionsapiserver.Codecs,
		ParameterCodec: metav1.ParameterCodec,
		Creater:        scheme, Convertor: scheme, Defaulter: scheme, Typer: scheme,
		UnsafeConvertor:          runtime.UnsafeObjectConvertor(scheme),
		Authorizer:               s.authorizer,
		EquivalentResourceMapper: s.Generic.EquivalentResourceRegistry,
		Resource:                 apiextensionsv1.SchemeGroupVersion.WithResource(definitionsName),
		Subresource:              subresource,
		Kind:                     kind,
		HubGroupVersion:          schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal},
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		TableConvertor:           tables,
		MaxRequestBodyBytes:      s.maxBody,
	}
	var err error
	scope.FieldManager, err = managedfields.NewDefaultFieldManager(types, convertor, scheme, scheme, kind, scope.HubGroupVersion,
		subresource, fieldpath.NewExcludeFilterSetMap(storage.GetResetFields()))
	return scope, err
}

// filter is a restful.FilterFunction. It answers, or passes on to Kubernetes' routes.
func (d *definitionWrites) filter(req *restful.Request, resp *restful.Response, chain *restful.FilterChain) {
	ctx := req.Request.Context()
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || info.APIGroup != apiextensions.GroupName || info.Resource != definitionsName {
		chain.ProcessFilter(req, resp)
		return
	}
	if info.Subresource == "" && (isWrite(info.Verb) || info.Verb == "delete") {
		release, err := d.limiter.acquire(ctx, d.weight(req.Request, info))
		if err != nil {
			responsewriters.ErrorNegotiated(apierrors.NewTimeoutError("other definitions are being written: try again", 1),
				apiextensionsapiserver.Codecs, apiextensionsv1.SchemeGroupVersion, resp.ResponseWriter, req.Request)
			return
		}
		defer release()
	}
	switch h := d.handlerFor(req.Request, info); h {
	case nil:
		chain.ProcessFilter(req, resp)
	default:
		h(resp.ResponseWriter, req.Request)
	}
}

// weight returns the bytes of the definition that a request sends or is for, whichever are
// more. It is negative if they are not known.
func (d *definitionWrites) weight(req *http.Request, info *request.RequestInfo) int64 {
	if info.Name == "" || req.ContentLength < 0 {
		return req.ContentLength
	}
	return max(req.ContentLength, d.size(info.Name))
}

// handlerFor returns the handler of a request, or nil for Kubernetes' own route.
func (d *definitionWrites) handlerFor(req *http.Request, info *request.RequestInfo) http.HandlerFunc {
	if info.APIVersion != apiextensionsv1.SchemeGroupVersion.Version {
		return nil
	}
	switch {
	case req.Method == http.MethodPost && info.Name == "" && info.Subresource == "":
		return d.create
	case req.Method == http.MethodPut && info.Subresource == "status" && req.Header.Get("Accept") == metadataOnlyAccept:
		// Only the controller of this process sends such writes. Another client would get an
		// answer without the spec.
		if u, ok := request.UserFrom(req.Context()); ok && u.GetName() == user.APIServerUser {
			return d.status
		}
	}
	return nil
}

// schemalessConvertor converts definitions without their schemas. It is for the manager of
// fields when definitions are created: their versions are one field to it, whatever they
// contain.
type schemalessConvertor struct{ runtime.ObjectConvertor }

// ConvertToVersion implements runtime.ObjectConvertor.
func (c schemalessConvertor) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	if full, ok := in.(*apiextensions.CustomResourceDefinition); ok {
		in = definitioncodec.WithoutSchemas(full)
	}
	return c.ObjectConvertor.ConvertToVersion(in, gv)
}

// completingConvertor converts outlines to definitions with schemas, for webhooks and
// policies of admission.
type completingConvertor struct{ runtime.ObjectConvertor }

// Convert implements runtime.ObjectConvertor.
func (c completingConvertor) Convert(in, out, context any) error {
	if full, ok := in.(*apiextensions.CustomResourceDefinition); ok {
		whole, err := definitioncodec.WithSchemas(full)
		if err != nil {
			return err
		}
		in = whole
	}
	return c.ObjectConvertor.Convert(in, out, context)
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (c completingConvertor) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	if full, ok := in.(*apiextensions.CustomResourceDefinition); ok {
		whole, err := definitioncodec.WithSchemas(full)
		if err != nil {
			return nil, err
		}
		in = whole
	}
	return c.ObjectConvertor.ConvertToVersion(in, gv)
}

// statusAdmission is admission for writes of the status by the controller, which does not
// send the spec. The object gets the stored spec; its schemas are added when admission
// converts it (completingConvertor).
type statusAdmission struct{ admission.Interface }

// Admit implements admission.MutationInterface.
func (s statusAdmission) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	next, ok := s.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	updated, isDefinition := a.GetObject().(*apiextensions.CustomResourceDefinition)
	old, hasOld := a.GetOldObject().(*apiextensions.CustomResourceDefinition)
	if isDefinition && hasOld {
		old.Spec.DeepCopyInto(&updated.Spec)
	}
	return next.Admit(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (s statusAdmission) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if next, ok := s.Interface.(admission.ValidationInterface); ok {
		return next.Validate(ctx, a, o)
	}
	return nil
}
