// Package right decides who may read at a replica, as the upstream does: by its RBAC objects,
// or by asking it.
package right
