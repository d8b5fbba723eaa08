package etcdfeed

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/feed"
)

// Objects returns key-values that etcd has sent, as objects that share their bytes.
func Objects(kvs []*mvccpb.KeyValue) []feed.Object {
	objects := make([]feed.Object, len(kvs))
	for i, kv := range kvs {
		objects[i] = objectOf(kv)
	}
	return objects
}

// objectOf returns a key-value as an object. A key-value without a version is a deletion
// (etcd's kv.proto).
func objectOf(kv *mvccpb.KeyValue) feed.Object {
	return feed.Object{Key: kv.Key, Value: kv.Value, Revision: kv.ModRevision, Deleted: kv.Version == 0}
}

// eventObjects returns events as objects that share their bytes.
func eventObjects(events []*clientv3.Event) []feed.Object {
	objects := make([]feed.Object, len(events))
	for i, e := range events {
		objects[i] = objectOf(e.Kv)
	}
	return objects
}
