package kube

import (
	"net/http"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/millrace/millrace/internal/apiserver/openapi"
)

// skipOpenAPI disables the documents of the servers that follow the aggregator in the
// chain: our own take their place. These servers then build nothing at start, and run no
// controllers that add custom resources. Server-side apply keeps the types that it needs.
// It must be called before the configuration is completed.
func skipOpenAPI(config *app.Config) {
	config.KubeAPIs.ControlPlane.Generic.SkipOpenAPIInstallation = true
	config.ApiExtensions.GenericConfig.SkipOpenAPIInstallation = true
}

// emptyOpenAPI makes such a server answer with empty documents. The aggregator asks for
// them at each request, and would log that they are missing.
func emptyOpenAPI(server *genericapiserver.GenericAPIServer) {
	answer := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Etag", `"empty"`)
			_, _ = w.Write([]byte(body)) // the aggregator calls this in memory
		}
	}
	server.Handler.NonGoRestfulMux.UnlistedHandle("/openapi/v2", answer(`{"swagger":"2.0","info":{"title":"Kubernetes","version":""},"paths":{}}`))
	server.Handler.NonGoRestfulMux.UnlistedHandle("/openapi/v3", answer(`{"paths":{}}`))
}

// openAPILocals describes the documents of a chain's servers, the aggregator first. They
// are built as the stock servers build them.
//
// Upstream: k8s.io/apiserver/pkg/server/routes.OpenAPI.InstallV2; compare at each upgrade.
func openAPILocals(chain []*genericapiserver.GenericAPIServer, config *common.Config, config3 *common.OpenAPIV3Config) []openapi.Local {
	var locals []openapi.Local
	for i, server := range chain {
		container := server.Handler.GoRestfulContainer
		local := openapi.Local{V2: func() (*spec.Swagger, error) {
			built, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(container.RegisteredWebServices()), config)
			if err != nil {
				return nil, err
			}
			built.Definitions = handler.PruneDefaults(built.Definitions)
			return built, nil
		}}
		if i > 0 { // the aggregator's own document includes the documents of APIServices
			local.V3 = func() (http.Handler, error) {
				at := mux.NewPathRecorderMux("openapi")
				routes.OpenAPI{V3Config: config3}.InstallV3(container, at)
				return at, nil
			}
		}
		locals = append(locals, local)
	}
	return locals
}
