// Package discovery keeps the discovery documents of an API server encoded, in the forms
// that clients ask for. These are the aggregated document of all groups, the list of
// groups, and the documents of each group and of each group version.
//
//	built-in groups, ─► manager ───► Documents ─► document ─────► representations
//	proxied servers                      ▲        (all groups)    of /apis, aggregated
//	definitions ──────► Custom ──────────┘
//	                    └───────────► cachedDocuments of /apis/GROUP[/VERSION]
//	APIServices ──────► Services ───► cachedDocuments of /apis and /apis/GROUP
//	Kubernetes' handlers ───────────► builtin: recorded /api and /apis/GROUP/VERSION
//
// Documents replaces Kubernetes' ResourceManager
// (k8s.io/apiserver/pkg/endpoints/discovery/aggregated). Built-in groups report to it,
// and so does the aggregator for the servers that it proxies. Custom resources come as rows
// of definitions, and APIServices as events of an informer.
//
// A change only drops what it concerns. When a client next asks for the aggregated document,
// the items of the changed groups are encoded, and all items joined. That is done once for all
// clients.
//
// Answers are the bytes of Kubernetes' answers, and have its ETags. So servers of both
// kinds may share one address. The bytes come from Kubernetes' encoders and handlers.
// Requests that the package does not know are passed on.
//
// The caller must put Server.Manager into the configuration of the servers before they are
// made. Where Kubernetes' own manager stays, the caller must give that to Custom.SetManager
// instead. It must put Server.Wrap between authorization and the aggregator's handler, and
// feed Server.Services and Server.Custom. The package starts no goroutine. It is not for the
// documents of OpenAPI.
package discovery
