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

// Upstream is a server whose definitions and objects scripts change.
type Upstream struct {
	*harness.Server
	*Client
	// Token belongs to a service account with all rights.
	Token string
	// Outages has the times in which requests may fail.
	Outages Outages
	// Eras has the generations of built-in resources: a new one begins when the server is
	// restarted as another version.
	Eras     Definition
	follower *etcdtruth.Follower
	// first is the name of any one resource that follower follows.
	first string
	mu    struct {
		sync.Mutex
		record map[recordKey]string // canonical objects, as the upstream has sent them
	}
}

// recordKey identifies an object as a version of a definition's generation shows it.
type recordKey struct {
	version    string
	generation int
	uid        string
	revision   int64
}

// New returns the upstream for a server that is ready. etcd is a client of the server's etcd, and
// resources are all that scripts will write.
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

// truthTimeout bounds the lag of the follower's watch of etcd.
const truthTimeout = 30 * time.Second

// note records an object as the upstream has sent it.
func (u *Upstream) note(r *Resource, version string, generation int, o *Object) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.record[recordKey{version, generation, o.UID, o.Revision}] = o.canonical(r.Definition == nil)
}

// lookupRecord returns the recorded canonical form of an object at its revision, in a version of a
// generation, and false if it is not recorded.
func (u *Upstream) lookupRecord(version string, generation int, o *Object) (string, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	text, ok := u.mu.record[recordKey{version, generation, o.UID, o.Revision}]
	return text, ok
}

var (
	// ErrDiffers is the error for an object that differs from the upstream's.
	ErrDiffers = errors.New("the upstream has another object")
	// ErrUnknown is the error for an object that was not recorded, and that the upstream does not
	// have any more.
	ErrUnknown = errors.New("the upstream's object is not known")
)

// Compare returns an error unless the upstream sends the same object at its revision in a
// version, in one of the generations among. It asks the upstream if nothing is recorded.
func (u *Upstream) Compare(ctx context.Context, r *Resource, version string, among []Generation, o *Object) error {
	err := u.compareWithRecord(r, version, among, o)
	if !errors.Is(err, ErrUnknown) {
		return err
	}
	r.turn.RLock()
	defer r.turn.RUnlock()
	// A change that held the lock may have recorded the object.
	if err = u.compareWithRecord(r, version, among, o); errors.Is(err, ErrUnknown) && slices.Contains(r.servedVersions(), version) {
		if askErr := u.ask(ctx, r, version, o); askErr != nil {
			return fmt.Errorf("%w: %w", ErrUnknown, askErr)
		}
		err = u.compareWithRecord(r, version, among, o)
	}
	return err
}

// compareWithRecord is Compare with the record alone. It returns ErrUnknown if the object may be of a
// generation in which it is not recorded.
func (u *Upstream) compareWithRecord(r *Resource, version string, among []Generation, o *Object) error {
	got := o.canonical(r.Definition == nil)
	unknown := false
	difference := ErrUnknown
	for _, g := range among {
		if r.Definition != nil && !g.Serves(version, false) {
			continue
		}
		want, ok := u.lookupRecord(version, g.Shape.Generation, o)
		switch {
		case !ok && g.Last > 0 && o.Revision > g.Last:
		case !ok:
			unknown = true
		case want == got:
			return nil
		default:
			difference = fmt.Errorf("%w in generation %d: %s", ErrDiffers, g.Shape.Generation, describeDifference(got, want))
		}
	}
	if unknown {
		return ErrUnknown
	}
	return difference
}

// describeDifference returns the text around the first difference of two objects.
func describeDifference(got, want string) string {
	const context = 60
	first := harness.FirstDifference(got, want)
	around := func(text string) string { return text[max(0, first-context):min(len(text), first+context)] }
	return fmt.Sprintf("want …%s…, got …%s…", around(want), around(got))
}

// Origins returns the generations in which the upstream has sent an equal object.
func (u *Upstream) Origins(r *Resource, version string, o *Object) (all []int) {
	if r.Definition == nil {
		return nil
	}
	got := o.canonical(false)
	for g := range r.Now().Shape.Generation + 1 {
		if text, ok := u.lookupRecord(version, g, o); ok && text == got {
			all = append(all, g)
		}
	}
	return all
}

// ask reads an object at its revision from the upstream, and records it.
func (u *Upstream) ask(ctx context.Context, r *Resource, version string, o *Object) error {
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
