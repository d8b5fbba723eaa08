// Package right decides who may read at a replica, as the upstream does: by its RBAC objects
// (Rights), or by asking it about users and rights (Reviews). The questions are bounded: no
// client can load the upstream with more.
package right
