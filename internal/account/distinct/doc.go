// Package distinct counts distinct things in bounded memory: exactly while they are few,
// then by a HyperLogLog. The caller hashes what it counts.
package distinct
