package fill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxTxnBytes bounds the keys and values of one transaction. It is below etcd's
// default request limit of 1.5 MiB.
const maxTxnBytes = 1_000_000

// etcdTarget writes objects to etcd under the keys that an API server would use.
type etcdTarget struct {
	client *clientv3.Client
	owned  bool // close closes the client
	prefix string
}

// dialEtcd returns a target after one successful read. The caller must close the target.
func dialEtcd(ctx context.Context, cfg Config) (*etcdTarget, error) {
	t := &etcdTarget{
		client: cfg.Etcd.Client,
		prefix: cfg.Etcd.Prefix,
	}
	address := "the given client"
	if t.client == nil {
		address = strings.Join(cfg.Etcd.Endpoints, ",")
		client, err := newEtcdClient(cfg.Etcd)
		if err != nil {
			return nil, err
		}
		t.client = client
		t.owned = true
	}
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := t.client.Get(probe, storageKey(t.prefix, "", "", ""), clientv3.WithCountOnly()); err != nil {
		err = fmt.Errorf("reach etcd at %s: %w; check etcd-servers and the etcd certificates", address, err)
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// newEtcdClient returns a client of cfg.Endpoints. It contacts no server.
func newEtcdClient(cfg EtcdConfig) (*clientv3.Client, error) {
	conf := clientv3.Config{
		Endpoints:            cfg.Endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		Logger:               zap.NewNop(),
	}
	if cfg.CAFile != "" || cfg.CertFile != "" {
		info := transport.TLSInfo{TrustedCAFile: cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile}
		tls, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("load etcd certificates: %w; check etcd-cafile, etcd-certfile and etcd-keyfile", err)
		}
		conf.TLS = tls
	}
	client, err := clientv3.New(conf)
	if err != nil {
		return nil, fmt.Errorf("configure etcd client: %w; check etcd-servers", err)
	}
	return client, nil
}

func (t *etcdTarget) close() error {
	if !t.owned {
		return nil
	}
	if err := t.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close etcd client: %w", err)
	}
	return nil
}

// etcdEntry is one entry to be written to etcd.
type etcdEntry struct{ key, value string }

// store implements target. A transaction ends before it exceeds maxTxnBytes.
func (t *etcdTarget) store(ctx context.Context, _ Kind, objs []Object) (Count, error) {
	var total Count
	entries := make([]etcdEntry, 0, len(objs))
	size := 0
	flush := func() error {
		count, err := t.create(ctx, entries)
		total.add(count)
		entries = entries[:0]
		size = 0
		return err
	}
	for _, obj := range objs {
		key, err := StorageKey(t.prefix, obj)
		if err != nil {
			return total, err
		}
		value, err := EncodeStored(obj)
		if err != nil {
			return total, err
		}
		if len(entries) > 0 && size+len(key)+len(value) > maxTxnBytes {
			if err := flush(); err != nil {
				return total, err
			}
		}
		entries = append(entries, etcdEntry{key, string(value)})
		size += len(key) + len(value)
	}
	if len(entries) == 0 {
		return total, nil
	}
	return total, flush()
}

// create writes the entries whose keys do not exist. It never overwrites an
// existing key.
func (t *etcdTarget) create(ctx context.Context, entries []etcdEntry) (Count, error) {
	var count Count
	err := retry(ctx, isTransientEtcd, func() error {
		for len(entries) > 0 {
			existing, err := t.tryCreate(ctx, entries)
			if err != nil {
				return err
			}
			if len(existing) == 0 {
				count.Done += int64(len(entries))
				for _, e := range entries {
					count.Bytes += int64(len(e.value))
				}
				return nil
			}
			missing := make([]etcdEntry, 0, len(entries))
			for _, e := range entries {
				if !existing[e.key] {
					missing = append(missing, e)
				}
			}
			count.Skipped += int64(len(entries) - len(missing))
			entries = missing
		}
		return nil
	})
	if err != nil {
		return count, fmt.Errorf("write to etcd: %w", explainEtcd(err))
	}
	return count, nil
}

// tryCreate writes all entries if none of their keys exists. Otherwise it writes
// nothing and returns the existing keys.
func (t *etcdTarget) tryCreate(ctx context.Context, entries []etcdEntry) (map[string]bool, error) {
	absent := make([]clientv3.Cmp, len(entries))
	puts := make([]clientv3.Op, len(entries))
	gets := make([]clientv3.Op, len(entries))
	for i, e := range entries {
		absent[i] = clientv3.Compare(clientv3.CreateRevision(e.key), "=", 0)
		puts[i] = clientv3.OpPut(e.key, e.value)
		gets[i] = clientv3.OpGet(e.key, clientv3.WithKeysOnly())
	}
	resp, err := t.client.Txn(ctx).If(absent...).Then(puts...).Else(gets...).Commit()
	if err != nil || resp.Succeeded {
		return nil, err
	}
	existing := make(map[string]bool)
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			existing[string(kv.Key)] = true
		}
	}
	return existing, nil
}

// isTransientEtcd reports whether a later attempt may succeed.
func isTransientEtcd(err error) bool {
	if errors.Is(err, rpctypes.ErrTooManyRequests) {
		return true
	}
	var etcdErr rpctypes.EtcdError
	if errors.As(err, &etcdErr) {
		return etcdErr.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}

// explainEtcd adds a remedy to errors that have a known one.
func explainEtcd(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w; etcd is full: raise its --quota-backend-bytes, compact, defragment and disarm the alarm", err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w; raise etcd's --max-request-bytes and --max-txn-ops", err)
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w; give an etcd client certificate that may write", err)
	}
	return err
}
