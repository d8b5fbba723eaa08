// Package cache keeps every stored object as bytes, in key order, with the recent events that
// changed it. LIST, GET and WATCH are answered from it instead of etcd or an upstream.
//
//	          etcd ──► etcdfeed.Feed, or API server ──► apifeed.Feed
//	                       │ BeginLoad, Apply, Progressed
//	                       ▼
//	                     Cache ──one for each prefix──► Resource
//	                       │                            ├─ state: Tree and its indexes
//	                       ▼                            └─ Log: recent Events
//	                   Progress
//	                       ▲
//	a read: Consistent.Wait, Resource.Snapshot, Snapshot.Select
//	a watch: Log.Since, then Log.Read or a Follower
//
// A Cache is a feed.Sink: one feed writes objects to it. A Reload replaces objects that
// were found to be wrong. Readers only add indexes and mark entries that cannot be decoded.
//
// The caller registers each resource with the functions that decrypt and decode it, and releases
// each registration. It calls Cache.Expire now and then, so that the logs of quiet resources
// drop old events. A reader waits until Progress shows that the cache is fresh enough, then takes
// a Snapshot. Snapshots never change and hold no lock. A watch reads the resource's Log from a
// position of its own.
//
// The package decodes nothing by itself and answers no requests. Packages read and
// storage do.
package cache
