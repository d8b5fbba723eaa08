package fill

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// scanPageBytes is the target size of one page of a scan. The limit of a page is
// computed from the average object size on the previous page. maxScanObjects
// bounds that limit.
const (
	scanPageBytes  = 4 << 20
	maxScanObjects = 500
)

// storedObject describes one object in etcd that fill made.
type storedObject struct {
	key       string
	name      string
	namespace string
	revision  int64
	size      int64
}

func (t *etcdTarget) remove(ctx context.Context, kind Kind, report func(Count)) error {
	if !kind.storable() {
		return nil
	}
	batches := make(chan []storedObject, t.workers)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(batches)
		return t.scan(ctx, kind, batches)
	})
	for range t.workers {
		group.Go(func() error {
			for batch := range batches {
				count, err := t.removeBatch(ctx, kind, batch)
				report(count)
				if err != nil {
					return fmt.Errorf("delete %s from etcd: %w", kind.noun(2), explainEtcd(err))
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// scan reads all objects of the kind page by page. It sends those that carry the
// seed, in batches.
func (t *etcdTarget) scan(ctx context.Context, kind Kind, batches chan<- []storedObject) error {
	from := storageKey(t.prefix, kind.storageDir(), "", "")
	end := clientv3.GetPrefixRangeEnd(from)
	limit := 10
	for {
		var page *clientv3.GetResponse
		err := retry(ctx, isTransientEtcd, func() (err error) {
			page, err = t.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)))
			return err
		})
		if err != nil {
			return fmt.Errorf("list %s in etcd: %w", kind.noun(2), err)
		}
		size := 1
		var found []storedObject
		for _, kv := range page.Kvs {
			size += len(kv.Value)
			if s, ok := t.ownObject(kv); ok {
				found = append(found, s)
			}
		}
		for batch := range slices.Chunk(found, t.batch) {
			select {
			case batches <- batch:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		limit = max(1, min(maxScanObjects, scanPageBytes/(size/len(page.Kvs)+1)))
	}
}

// ownObject reports whether fill made the object with this seed. It reports false
// for an unreadable object, such as an encrypted one.
func (t *etcdTarget) ownObject(kv *mvccpb.KeyValue) (storedObject, bool) {
	if !bytes.Contains(kv.Value, []byte(LabelSeed)) {
		return storedObject{}, false
	}
	meta, ok := storedMeta(kv.Value)
	if !ok || meta.Labels[LabelSeed] != t.seed {
		return storedObject{}, false
	}
	return storedObject{
		key: string(kv.Key), name: meta.Name, namespace: meta.Namespace,
		revision: kv.ModRevision, size: int64(len(kv.Value)),
	}, true
}

func (t *etcdTarget) removeBatch(ctx context.Context, kind Kind, batch []storedObject) (Count, error) {
	if kind != KindNamespace {
		return t.removeUnchanged(ctx, batch)
	}
	var total Count
	for _, ns := range batch {
		count, err := t.removeNamespace(ctx, ns)
		total.add(count)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// removeUnchanged deletes a batch in one transaction, if no object has changed
// since the scan. Otherwise each object is read again, and deleted if it still
// carries the seed.
func (t *etcdTarget) removeUnchanged(ctx context.Context, batch []storedObject) (Count, error) {
	var count Count
	unchanged := make([]clientv3.Cmp, len(batch))
	deletes := make([]clientv3.Op, len(batch))
	for i, s := range batch {
		unchanged[i] = clientv3.Compare(clientv3.ModRevision(s.key), "=", s.revision)
		deletes[i] = clientv3.OpDelete(s.key)
		count.Done++
		count.Bytes += s.size
	}
	var resp *clientv3.TxnResponse
	err := retry(ctx, isTransientEtcd, func() (err error) {
		resp, err = t.client.Txn(ctx).If(unchanged...).Then(deletes...).Commit()
		return err
	})
	if err != nil {
		return Count{}, err
	}
	if resp.Succeeded {
		return count, nil
	}
	var total Count
	for _, s := range batch {
		got, err := t.client.Get(ctx, s.key)
		if err != nil {
			return total, err
		}
		if len(got.Kvs) == 0 {
			continue
		}
		again, ok := t.ownObject(got.Kvs[0])
		if !ok {
			total.Skipped++
			continue
		}
		one, err := t.removeUnchanged(ctx, []storedObject{again})
		total.add(one)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// removeNamespace deletes a namespace together with the objects that a control
// plane creates in every namespace. A namespace that holds any other object is
// skipped.
func (t *etcdTarget) removeNamespace(ctx context.Context, ns storedObject) (Count, error) {
	var own []storedObject
	for _, kind := range occupants() {
		prefix := storageKey(t.prefix, kind.storageDir(), ns.name, "")
		got, err := t.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(3))
		if err != nil {
			return Count{}, err
		}
		for _, kv := range got.Kvs {
			key := string(kv.Key)
			if !isAutomatic(kind, strings.TrimPrefix(key, prefix)) {
				t.noteSkipped(ns.name)
				return Count{Skipped: 1}, nil
			}
			own = append(own, storedObject{key: key, revision: kv.ModRevision})
		}
	}
	own = append(own, ns)
	ops := make([]clientv3.Op, len(own))
	for i, s := range own {
		ops[i] = clientv3.OpDelete(s.key)
	}
	resp, err := t.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(ns.key), "=", ns.revision)).Then(ops...).Commit()
	if err != nil {
		return Count{}, err
	}
	if !resp.Succeeded {
		t.noteSkipped(ns.name)
		return Count{Skipped: 1}, nil
	}
	return Count{Done: 1, Bytes: ns.size}, nil
}

func (t *etcdTarget) noteSkipped(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.skippedNamespaces = append(t.mu.skippedNamespaces, namespace)
}

// occupants returns the kinds that are looked for before a namespace is deleted: the built-in
// ones that users create. Left out is what controllers derive from these and remove some time
// after them: endpoints, endpoint slices, controller revisions and events. Custom objects are
// not looked for either.
func occupants() []Kind {
	kinds := []Kind{KindPod, KindConfigMap, KindSecret, KindServiceAccount, KindService, KindDeployment, KindReplicaSet, KindLease}
	for _, other := range otherKinds() {
		if other.namespaced && other.kind != "endpoints" && other.kind != "controllerrevisions" {
			kinds = append(kinds, other.kind)
		}
	}
	return kinds
}

// isAutomatic reports whether a control plane creates this object in every
// namespace.
func isAutomatic(kind Kind, name string) bool {
	return kind == KindServiceAccount && name == "default" || kind == KindConfigMap && name == "kube-root-ca.crt"
}

// skippedNotes returns a note that names the skipped namespaces, or nil if there
// are none.
func skippedNotes(namespaces []string) []string {
	const most = 5
	if len(namespaces) == 0 {
		return nil
	}
	slices.Sort(namespaces)
	list := strings.Join(namespaces[:min(most, len(namespaces))], ", ")
	if len(namespaces) > most {
		list += fmt.Sprintf(" and %d more", len(namespaces)-most)
	}
	return []string{"left namespaces that changed or hold objects fill did not make: " + list}
}
