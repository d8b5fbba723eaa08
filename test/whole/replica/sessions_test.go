package replica

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// versionedRead is a read that must see a version or a newer one.
type versionedRead struct {
	// asked is the resource version of the request, 0 if it had none.
	asked int64
	// key is the object that was read, "" for a LIST.
	key string
	// version is that of the LIST, or of the object; 0 if there was none.
	version int64
	// objects are those of a LIST, with their versions.
	objects map[watchcheck.Key]int64
}

// session is the reads of one client, in their order.
type session []versionedRead

// versionedReaders start clients that ask for a version: those that have heard of another
// client's write, and those that carry the newest version that they have seen from server to
// server. None may go back.
func (r *round) versionedReaders(start func(func(context.Context, int))) {
	for range 2 {
		start(func(ctx context.Context, _ int) { r.readBehind(ctx, r.replicas, false) })
		start(func(ctx context.Context, _ int) {
			r.readBehind(ctx, append([]kubernetes.Interface{r.upstream}, r.replicas...), true)
		})
	}
}

// readBehind reads at one server after the other. It asks for the newest version that it has
// seen itself, if it carries one, or for that of the newest write.
func (r *round) readBehind(ctx context.Context, servers []kubernetes.Interface, carries bool) {
	var seen session
	var carried int64
	for ctx.Err() == nil {
		asked := carried
		if !carries {
			r.mu.Lock()
			asked = r.mu.newest
			r.mu.Unlock()
		}
		read, err := r.versionedRead(ctx, servers[rand.IntN(len(servers))], asked)
		if err != nil {
			r.readFailed(ctx, err)
			continue
		}
		seen, carried = append(seen, read), max(carried, read.version)
		pauseFor(ctx, 2*time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sessions = append(r.mu.sessions, seen)
}

// versionedRead gets or lists at a version or a newer one.
func (r *round) versionedRead(ctx context.Context, server kubernetes.Interface, asked int64) (versionedRead, error) {
	version := ""
	if asked > 0 {
		version = strconv.FormatInt(asked, 10)
	}
	at := server.CoreV1().ConfigMaps("default")
	if rand.IntN(3) == 0 {
		list, err := at.List(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			return versionedRead{}, err
		}
		return r.listed(list, asked), nil
	}
	key := r.keys[rand.IntN(len(r.keys))]
	got, err := at.Get(ctx, key, metav1.GetOptions{ResourceVersion: version})
	if apierrors.IsNotFound(err) {
		return versionedRead{asked: asked, key: key}, nil
	}
	if err != nil {
		return versionedRead{}, err
	}
	return versionedRead{asked: asked, key: key, version: r.revision(got.ResourceVersion)}, nil
}

// listed returns what a LIST has told.
func (r *round) listed(list *corev1.ConfigMapList, asked int64) versionedRead {
	read := versionedRead{asked: asked, version: r.revision(list.ResourceVersion), objects: map[watchcheck.Key]int64{}}
	for i := range list.Items {
		if item := &list.Items[i]; r.owns(item.Name) {
			read.objects[watchcheck.Key{Namespace: item.Namespace, Name: item.Name}] = r.revision(item.ResourceVersion)
		}
	}
	return read
}

// owns reports whether an object belongs to this round.
func (r *round) owns(name string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(r.keys[0], "0"))
}

func (r *round) revision(version string) int64 {
	n, err := parseInt(version)
	if err != nil {
		r.t.Error(err)
	}
	return n
}

// checkSessions compares all reads with what etcd had, and returns their number.
func (r *round) checkSessions() (n int) {
	last := int64(0)
	for _, s := range r.mu.sessions {
		for i := range s {
			last = max(last, s[i].version)
		}
	}
	if err := r.truth.Wait(r.t.Context(), last); err != nil {
		r.t.Fatal(err)
	}
	truth := r.truth.Truth("configmaps")
	shown := 0
	for i, s := range r.mu.sessions {
		for j := range s {
			n++
			if err := s[j].check(truth, r); err != nil && shown < 5 {
				shown++
				r.t.Errorf("session %d, read %d of %d: %v", i, j+1, len(s), err)
			}
		}
	}
	return n
}

// check checks that a read shows the state of one version that is not older than the one
// that was asked for.
func (read *versionedRead) check(truth *watchcheck.Truth, r *round) error {
	if read.key == "" {
		if read.version < read.asked {
			return fmt.Errorf("a LIST has version %d and was asked for %d", read.version, read.asked)
		}
		want := map[watchcheck.Key]int64{}
		for key, state := range truth.StateAt(&watchcheck.Selection{}, read.version) {
			if r.owns(key.Name) {
				want[key] = state.Revision
			}
		}
		if !maps.Equal(read.objects, want) {
			return fmt.Errorf("a LIST of version %d has %v, want %v", read.version, read.objects, want)
		}
		return nil
	}
	// The object had this version, 0 for none, and kept it behind the one that was asked for.
	version := int64(0)
	for i := range truth.Changes {
		c := &truth.Changes[i]
		if c.Key.Name != read.key {
			continue
		}
		if version == read.version && c.Revision > read.asked {
			return nil
		}
		if version = 0; c.After != nil {
			version = c.Revision
		}
	}
	if version == read.version {
		return nil
	}
	return fmt.Errorf("GET %s has version %d and was asked for %d; the newest is %d", read.key, read.version, read.asked, version)
}
