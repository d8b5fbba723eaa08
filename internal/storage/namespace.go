package storage

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// Kubernetes' registries make a list over all namespaces, whose field selector pins
// one, a list of that namespace. They do so for the first page alone, whose token then
// says nothing of the namespace: a later page reads it as a token of the whole list.
// Here all pages of such a list are narrowed, and their tokens are those of the whole
// list, which every server understands.

// listScope is what a list reads.
func (s *Store) listScope(ctx context.Context, key string, opts *storage.ListOptions) (sc scope, ok bool, err error) {
	sc, ok, err = s.scope(key, opts.Recursive)
	namespace, pinned := pinnedNamespace(&opts.Predicate)
	if err != nil || !ok || !sc.recursive || !pinned {
		return sc, ok, err
	}
	first := opts.Predicate.Continue == ""
	switch {
	case !first && sc.key == "":
		sc.key = namespace + "/"
		sc.etcdKey = sc.tokenPrefix + sc.key
	case first && sc.key == namespace+"/" && s.listsAllNamespaces(ctx):
		sc.tokenPrefix = s.cfg.Resource.Prefix()
	}
	return sc, ok, nil
}

// pinnedNamespace is the namespace that a registry would narrow a list to.
func pinnedNamespace(p *storage.SelectionPredicate) (string, bool) {
	if p.Field == nil {
		return "", false
	}
	namespace, ok := p.Field.RequiresExactMatch("metadata.namespace")
	return namespace, ok && len(validation.ValidateNamespaceName(namespace, false)) == 0
}

// listsAllNamespaces reports whether the request is a list of this resource over all namespaces.
func (s *Store) listsAllNamespaces(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.IsResourceRequest && info.Verb == "list" && info.Namespace == "" &&
		info.Resource == s.cfg.Resource.GroupResource().Resource
}

// narrowed reports whether the scope is one namespace of a list over all.
func (sc *scope) narrowed() bool { return sc.tokenPrefix != sc.etcdKey }

// continueAt is the key that a token continues at, relative to the resource's prefix.
// A token without the namespace is the stock server's for the first page.
func (sc *scope) continueAt(from string) string {
	if sc.narrowed() && from != "" && !strings.Contains(from, "/") {
		return sc.key + from
	}
	return from
}

// listEtcd answers from etcd what the cache cannot. Of a later page etcd is asked as
// part of the whole list.
func (s *Store) listEtcd(ctx context.Context, key string, sc scope, opts storage.ListOptions, list runtime.Object) error {
	etcdPrefix := sc.etcdKey
	if sc.narrowed() && opts.Predicate.Continue != "" {
		etcdPrefix = sc.tokenPrefix
		from, rv, err := storage.DecodeContinue(opts.Predicate.Continue, etcdPrefix)
		if err != nil {
			return fmt.Errorf("read continue token: %w", err)
		}
		from = etcdPrefix + sc.continueAt(strings.TrimPrefix(from, etcdPrefix))
		if opts.Predicate.Continue, err = storage.EncodeContinue(from, etcdPrefix, rv); err != nil {
			return fmt.Errorf("write continue token: %w", err)
		}
	}
	if err := s.cfg.Etcd.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	return sc.rewriteToken(list, etcdPrefix)
}

// rewriteToken makes of a token, which leaves out what etcd was asked for, one as the
// cache would write it.
func (sc *scope) rewriteToken(list runtime.Object, etcdPrefix string) error {
	m, err := meta.ListAccessor(list)
	if err != nil || m.GetContinue() == "" {
		return err
	}
	from, rv, err := storage.DecodeContinue(m.GetContinue(), etcdPrefix)
	if err != nil {
		return fmt.Errorf("read continue token: %w", err)
	}
	token, err := storage.EncodeContinue(from, sc.omittedPrefix(), rv)
	if err != nil {
		return fmt.Errorf("write continue token: %w", err)
	}
	m.SetContinue(token)
	return nil
}

// omittedPrefix is the beginning of keys that the scope's tokens leave out.
func (sc *scope) omittedPrefix() string {
	if sc.keepsSlash {
		return strings.TrimSuffix(sc.tokenPrefix, "/")
	}
	return sc.tokenPrefix
}
