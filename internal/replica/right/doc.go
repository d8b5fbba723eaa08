// Package right decides who may read at a replica, as the upstream does. It uses the
// upstream's RBAC objects (Rights), or asks it about users and rights (Reviews). The
// questions are bounded: no client can load the upstream with more.
package right
