// Package resource holds the words that every layer shares: a stored object as
// bytes, its labels and selectable fields, and its key. It is pure: nothing
// here blocks, allocates in the background or knows etcd.
package resource
