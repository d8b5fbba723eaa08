// Package right decides who may read at a replica, as the upstream does: by its RBAC objects
// (Rights), or by asking it about users and rights (Reviews), within bounds that no client can
// make the upstream's load exceed.
package right
