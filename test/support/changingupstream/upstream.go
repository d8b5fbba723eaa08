package changingupstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/etcdtruth"
	"github.com/millrace/millrace/test/support/harness"
)

// Upstream is a server whose world scripts change.
type Upstream struct {
	*harness.Server
	*Client
	// Token is that of a service account which may do anything.
	Token string
	// Outages are the times in which its requests may fail.
	Outages Outages
	// Eras are the generations of built-in resources: a new one begins when the server is
	// restarted as another version.
	Eras     Definition
	follower *etcdtruth.Follower
	// first is the name of one resource in it.
	first string
	mu    struct {
		sync.Mutex
		record map[recordKey]string
		asked  int
	}
}

// recordKey identifies an object as a version of a definition's generation shows it.
type recordKey struct {
	version    string
	generation int
	uid        string
	revision   int64
}

// New returns the upstream for a server that is ready, and a client of its etcd. Scripts will write some resources.
func New(tb testing.TB, server *harness.Server, etcd *clientv3.Client, resources ...*Resource) *Upstream {
	tb.Helper()
	u := &Upstream{Server: server}
	u.mu.record = map[recordKey]string{}
	u.Eras.begin(Shape{}, false)
	var err error
	if u.Token, err = serviceAccount(tb.Context(), server.Config(), "living", "cluster-admin"); err != nil {
		tb.Fatalf("make an account: %v", err)
	}
	u.Client = NewClient(server, u.Token)
	var all []etcdtruth.Resource
	for _, r := range resources {
		all = append(all, r.truth())
	}
	u.first = all[0].Name
	if u.follower, err = etcdtruth.Follow(tb.Context(), etcd, all); err != nil {
		tb.Fatalf("follow etcd: %v", err)
	}
	return u
}

// Truth returns the history of a resource, once it reaches a revision.
func (u *Upstream) Truth(ctx context.Context, r *Resource, through int64) (*watchcheck.Truth, error) {
	ctx, cancel := context.WithTimeout(ctx, truthTimeout)
	defer cancel()
	if err := u.follower.Wait(ctx, through); err != nil {
		return nil, err
	}
	return u.follower.Truth(r.truthName()), nil
}

// Revision returns the revision up to which etcd's history is known.
func (u *Upstream) Revision() int64 {
	// All resources are followed by one watch.
	return u.follower.Truth(u.first).Through
}

// Forget drops the history up to a revision, which keeps comparisons cheap.
func (u *Upstream) Forget(revision int64) { u.follower.Forget(revision) }

// truthTimeout is how long etcd's own watch may be behind.
const truthTimeout = 30 * time.Second

// note records an object as the upstream has sent it.
func (u *Upstream) note(r *Resource, version string, generation int, o *Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.record[recordKey{version, generation, o.UID, o.Revision}] = o.canonical(r.Definition == nil)
}

func (u *Upstream) recorded(version string, generation int, o *Object) (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	text, ok := u.mu.record[recordKey{version, generation, o.UID, o.Revision}]
	return text, ok
}

// Asked says how many objects had to be asked for.
func (u *Upstream) Asked() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.asked
}

var (
	// ErrDiffers says that an object is not what the upstream has.
	ErrDiffers = errors.New("the upstream has another object")
	// ErrUnknown says that nobody knows any more what the upstream had.
	ErrUnknown = errors.New("the upstream's object is not known")
)

// Compare returns an error unless an object is what the upstream sends of its revision in a
// version, in one of some generations of its definition.
func (u *Upstream) Compare(ctx context.Context, r *Resource, version string, among []Generation, o *Object) error {
	err := u.compare(r, version, among, o)
	if !errors.Is(err, ErrUnknown) {
		return err
	}
	r.turn.RLock()
	defer r.turn.RUnlock()
	// A change has perhaps been waited for, which has recorded the object.
	if err = u.compare(r, version, among, o); errors.Is(err, ErrUnknown) && slices.Contains(r.served(), version) {
		if asked := u.ask(ctx, r, version, o); asked != nil {
			return fmt.Errorf("%w: %w", ErrUnknown, asked)
		}
		err = u.compare(r, version, among, o)
	}
	return err
}

// compare compares with what is recorded.
func (u *Upstream) compare(r *Resource, version string, among []Generation, o *Object) error {
	got, known, missing := o.canonical(r.Definition == nil), "", ErrUnknown
	for _, g := range among {
		if r.Definition != nil && !g.Serves(version, false) {
			continue
		}
		want, ok := u.recorded(version, g.Shape.Generation, o)
		switch {
		case !ok && g.Last > 0 && o.Revision > g.Last:
		case !ok:
			known = "?"
		case want == got:
			return nil
		default:
			missing = fmt.Errorf("%w in generation %d: %s", ErrDiffers, g.Shape.Generation, difference(got, want))
		}
	}
	if known == "?" {
		return ErrUnknown
	}
	return missing
}

// difference describes the first difference of two objects.
func difference(got, want string) string {
	const context = 60
	at := harness.FirstDifference(got, want)
	around := func(text string) string { return text[max(0, at-context):min(len(text), at+context)] }
	return fmt.Sprintf("want …%s…, got …%s…", around(want), around(got))
}

// Origins are the generations in which the upstream has sent an object so.
func (u *Upstream) Origins(r *Resource, version string, o *Object) (all []int) {
	if r.Definition == nil {
		return nil
	}
	got := o.canonical(false)
	for g := range r.Now().Shape.Generation + 1 {
		if text, ok := u.recorded(version, g, o); ok && text == got {
			all = append(all, g)
		}
	}
	return all
}

// ask asks for an object at its revision, and records it.
func (u *Upstream) ask(ctx context.Context, r *Resource, version string, o *Object) error {
	u.mu.Lock()
	u.mu.asked++
	u.mu.Unlock()
	selector := url.QueryEscape("metadata.name=" + fields.EscapeValue(o.Name))
	query := fmt.Sprintf("?resourceVersionMatch=Exact&resourceVersion=%d&fieldSelector=%s", o.Revision, selector)
	a := u.Send(ctx, Get(r.Collection(version, o.Namespace)+query))
	if a.Err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("status %d: %s", a.Status, a.Message())
	}
	list, err := NewList(a.Body)
	if err != nil {
		return err
	}
	if a.Foreign() {
		return errors.New("another server has answered")
	}
	u.noteList(r, version, a.Generation(), list)
	return nil
}

// noteList records the objects of a list.
func (u *Upstream) noteList(r *Resource, version string, generation int, list *List) {
	if r.Definition == nil {
		generation = u.Eras.Now().Shape.Generation
	}
	for _, o := range list.Objects {
		u.note(r, version, generation, o)
	}
}
