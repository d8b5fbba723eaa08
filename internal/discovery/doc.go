// Package discovery keeps the discovery documents of an API server encoded: the
// aggregated document of all groups, the list of groups, and the document of
// each group and of each group version, in the forms that clients ask for.
//
// Documents is a ResourceManager in place of Kubernetes' own
// (k8s.io/apiserver/pkg/endpoints/discovery/aggregated): built-in groups, and
// the aggregator for the servers behind it, feed it as they feed that one.
// Custom resources come as rows of definitions, APIServices as an informer's
// events. A change costs its own group: the group's item is encoded anew, and a
// document is put together from the items when it is next asked for, once for
// all who ask.
//
// Answers are byte for byte Kubernetes' own, the ETag included, so servers of
// both kinds may stand behind one address. Bytes come from Kubernetes' encoders
// and handlers; requests that the package does not know are passed on.
//
// The caller puts Server.Manager in the servers' configuration before they are
// made, Server.Wrap around the aggregator's handler behind authorization, and
// feeds Server.Services, and Server.Custom if no other controller tells the
// manager of custom resources. The package starts nothing.
package discovery
