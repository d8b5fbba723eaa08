package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// A list over all namespaces may have a field selector that requires one namespace.
// Kubernetes' registries narrow such a list to that namespace, but only on the first
// page. The token of that page says nothing of the namespace, and a later page takes it for a
// token of the whole list.
//
// This file narrows all pages of such a list. Their tokens are tokens of the whole list, which
// every server understands.

// listScope returns the scope of a list, narrowed to one namespace if a field selector
// requires that.
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

// pinnedNamespace returns the namespace that a registry would narrow a list to.
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.Store.ListPredicate; compare at each upgrade.
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

// narrowed reports whether the scope is one namespace of a list over all namespaces.
func (sc *scope) narrowed() bool { return sc.tokenPrefix != sc.etcdKey }

// continueAt returns the key that a token continues at, relative to the resource's
// prefix. from is the token's key. A key without a namespace comes from the first page of a
// stock server.
func (sc *scope) continueAt(from string) string {
	if sc.narrowed() && from != "" && !strings.Contains(from, "/") {
		return sc.key + from
	}
	return from
}

// listEtcd answers from etcd a list that the cache cannot answer. It uses the same keys
// and tokens as the cache.
func (s *Store) listEtcd(ctx context.Context, key string, sc scope, opts storage.ListOptions, list runtime.Object) error {
	if sc.narrowed() && opts.Predicate.Continue != "" {
		token, err := sc.tokenWithin(opts.Predicate.Continue)
		if err != nil {
			return err
		}
		key, opts.Predicate.Continue = path.Join(key, sc.key), token
	}
	if err := s.cfg.Etcd.GetList(ctx, key, opts, list); err != nil {
		return sc.rewriteExpired(err)
	}
	m, err := meta.ListAccessor(list)
	if err != nil || m.GetContinue() == "" {
		return err
	}
	token, err := sc.translateToken(m.GetContinue(), sc.omittedPrefix())
	if err != nil {
		return err
	}
	m.SetContinue(token)
	return nil
}

// lastSuffix sorts after every name in a namespace.
const lastSuffix = string(unicode.MaxRune)

// tokenWithin translates a token of the whole list to a token of the scope's namespace. A
// token at a key of another namespace continues before the first object, or after the last
// one.
func (sc *scope) tokenWithin(token string) (string, error) {
	from, rv, err := storage.DecodeContinue(token, sc.tokenPrefix)
	if err != nil {
		return "", fmt.Errorf("read continue token: %w", err)
	}
	from = sc.continueAt(strings.TrimPrefix(from, sc.tokenPrefix))
	switch {
	case strings.HasPrefix(from, sc.key) && from != sc.key:
	case from <= sc.key:
		from = sc.key + "\x00"
	default:
		from = sc.key + lastSuffix
	}
	if token, err = storage.EncodeContinue(sc.tokenPrefix+from, sc.etcdKey, rv); err != nil {
		return "", fmt.Errorf("write continue token: %w", err)
	}
	return token, nil
}

// translateToken translates a token of Kubernetes' etcd storage, which omits the scope's
// etcdKey, to a token that omits another beginning of keys.
func (sc *scope) translateToken(token, omitted string) (string, error) {
	from, rv, err := storage.DecodeContinue(token, sc.etcdKey)
	if err != nil {
		return "", fmt.Errorf("read continue token: %w", err)
	}
	if token, err = storage.EncodeContinue(from, omitted, rv); err != nil {
		return "", fmt.Errorf("write continue token: %w", err)
	}
	return token, nil
}

// rewriteExpired returns an error of Kubernetes' etcd storage. If the scope is narrowed, it
// replaces the token that the error offers by a token of the whole list.
func (sc *scope) rewriteExpired(err error) error {
	var status *apierrors.StatusError
	if !sc.narrowed() || !errors.As(err, &status) || status.ErrStatus.Continue == "" {
		return err
	}
	token, failed := sc.translateToken(status.ErrStatus.Continue, sc.tokenPrefix)
	if failed != nil {
		return failed
	}
	status.ErrStatus.Continue = token
	return err
}

// omittedPrefix returns the beginning of keys that the scope's tokens omit.
func (sc *scope) omittedPrefix() string {
	if sc.keepsSlash {
		return strings.TrimSuffix(sc.tokenPrefix, "/")
	}
	return sc.tokenPrefix
}
