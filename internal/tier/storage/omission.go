package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/millrace/millrace/internal/wire/entry"
)

// omits reports whether objects that are not usable are left out for the reader of a list or
// watch. They are left out of requests by this server's own user (user.APIServerUser), as its
// informers send them, for a kind with Config.Usable.
//
// In Kubernetes, one RBAC object that cannot be read keeps a server from starting. It also
// keeps a running server from seeing any change of that kind. An APIService with a name that
// the API does not allow ends the process.
func (s *Store) omits(ctx context.Context) bool {
	if s.cfg.Usable == nil {
		return false
	}
	u, ok := request.UserFrom(ctx)
	return ok && u.GetName() == user.APIServerUser
}

// shows returns false for an entry's object that is left out for a reader for whom the store omits
// objects. err is the error of decoding the object. If it is not nil, shows marks the entry and
// returns false. obj is nil if the object is not selected: then shows returns true.
func (s *Store) shows(e *entry.Entry, obj runtime.Object, err error) bool {
	if err != nil {
		s.cfg.Resource.MarkUndecodable(s.cfg.Cache, e, err)
		return false
	}
	if shared, ok := obj.(*sharedObject); ok {
		obj = shared.obj
	}
	return obj == nil || s.cfg.Usable(e.Key, obj) == nil
}
