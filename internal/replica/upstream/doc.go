// Package upstream makes all connections of a replica to its API server, the upstream. It
// decides with which credentials and connections each request goes out, and knows what the
// upstream is. Nothing else in a replica connects to the upstream.
//
//	client ─► Stash ─► filters ─► … ─► Proxy ─┬─ users ─────────────────────► a user's own token
//	          keeps      Authenticator        ├─ strangers ─────────────────► no credentials, or unknown ones
//	          credentials                     ├─ front ─────────► mayVouch ─► a front proxy's certificate
//	                                          └─ impersonating ─► mayImper… ─► the replica's, for the user
//	documents, reviews, feeds, … ─► Own, Document ─────────────────► isOwn ─► the replica's, for itself
//
// # Why nothing that a client sends is done with rights that it does not have
//
// A request reaches the upstream in one of five ways, and by transports that share no
// connection with the transports of another way.
//
// Users and strangers: the transport has no credentials at all. What is sent is what the
// client has sent, so the upstream decides about exactly that client.
//
// The replica's own: the last thing before the connection is a guard (Door.isOwn). It lets a
// closed list of requests through (shapeOf):
//
//   - documents of discovery and OpenAPI, questions about users and rights, and one config map;
//   - lists and watches of a resource that may be copied: of all objects, or of one by its name;
//   - lists of the metadata of one object, of any resource.
//
// Their paths contain no string of a client's request, except for documents. There the path is
// a Target, made of words that every server reads alike. The guard compares it with what is
// about to be sent. The right to it was asked for the same bytes. A fault anywhere else cannot
// make the replica fetch something else: it costs an answer, a line of the log and a count.
//
// Impersonation and the front proxy are the exception: a client's words go out with
// credentials of the replica's. Their guards (mayImpersonate, mayVouch) see the finished
// request, and let none through that does not name the user, whose rights the upstream then
// applies. A server on the way that reads the path in another way, and knows nothing of such
// headers, would apply the replica's rights. So no path goes this way that has a part "." or
// "..".
//
// Headers by which a client could claim to be somebody are removed, or are the upstream's to
// judge. Headers of front proxies are removed. The upstream publishes their names, which are
// read again each half minute. Headers of impersonation go out with the client's own token,
// with no credentials, or together with the name of the client's user. A user counts as one of
// a certificate only if no token was looked at.
//
// The caller makes one Door for each server, wires Stash and NewAuthenticator into Kubernetes'
// filters (kube.ReplicaConfig), and gives all else that asks the upstream Door.Own.
package upstream
