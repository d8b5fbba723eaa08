// Package right decides who may read at a replica, as the upstream does. It uses the
// upstream's RBAC objects (Rights), or asks the upstream about users and rights (Reviews). The
// number of questions at a time is bounded, whatever clients send.
package right
