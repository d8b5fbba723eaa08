// Package etcdserver runs an etcd in this process, without a network listener.
//
// The caller calls Check before etcd opens files that may be damaged, then Open, and Close
// after everything that uses the etcd has stopped. If etcd stops by itself, Err says so, and
// what NewLogger makes tells a person what to do.
//
// No other package links etcd's server, so a program that has no etcd of its own stays small.
package etcdserver
