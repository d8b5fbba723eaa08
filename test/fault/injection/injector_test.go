package injection

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/test/support/harness"
)

// injector injects the faults of a schedule into a cluster.
type injector struct {
	*cluster
	began time.Time
	// tell notes what happens, and when.
	tell func(at time.Duration, what string)
	ends map[*fault]func()
	// calls are requests to etcd that are under way.
	calls sync.WaitGroup
	mu    struct {
		sync.Mutex
		// ids are those of the members, by name.
		ids map[string]uint64
		// replacing is the member that was removed and has not joined.
		replacing string
	}
}

// inject injects faults at their times, until the last one is over or the context ends. Then
// the cluster is whole again.
func (in *injector) inject(ctx context.Context, faults []*fault) {
	in.began, in.ends = time.Now(), map[*fault]func(){}
	in.findIDs(ctx)
	for _, s := range steps(faults) {
		select {
		case <-time.After(time.Until(in.began.Add(s.at))):
			in.take(s)
		case <-ctx.Done():
		}
	}
	for _, end := range in.ends {
		end()
	}
	in.calls.Wait()
}

// take takes a step.
func (in *injector) take(s step) {
	if s.ends {
		in.ends[s.fault]()
		delete(in.ends, s.fault)
		return
	}
	in.tell(time.Since(in.began), s.fault.String())
	end, err := s.begin(in, s.fault)
	if err != nil {
		in.tell(time.Since(in.began), fmt.Sprintf("%s did not happen: %v", s.fault, err))
	}
	if s.length > 0 {
		in.ends[s.fault] = end
	}
}

// node returns the target of a fault.
func (in *injector) node(f *fault) *node {
	for _, n := range in.nodes() {
		if n.name == f.target {
			return n
		}
	}
	panic("no process is " + f.target)
}

func (in *injector) kill(f *fault) (end func(), err error) {
	n := in.node(f)
	n.kill()
	return n.revive, nil
}

func (in *injector) pause(f *fault) (end func(), err error) {
	n := in.node(f)
	n.signal(syscall.SIGSTOP)
	return func() { n.signal(syscall.SIGCONT) }, nil
}

// replace removes a member from the cluster, with its data. When the fault ends, it joins as a
// new member. One member is replaced at a time: a new one that is told of a member which is
// removed meanwhile does not start, and the two that are left need it.
func (in *injector) replace(f *fault) (end func(), err error) {
	n := in.node(f)
	i := slices.Index(in.members, n)
	other := in.clients[(i+1)%len(in.clients)]
	id, err := in.beginReplacing(n.name)
	if err != nil {
		return func() {}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	if _, err = other.MemberRemove(ctx, id); err == nil {
		n.kill()
	}
	// A removal that failed may have happened.
	return func() {
		in.calls.Go(func() {
			if err := harness.Until(readyTimeout, func() error { return in.join(i, id, other) }); err != nil {
				in.tell(time.Since(in.began), fmt.Sprintf("%s: it does not join: %v", f, err))
			}
			n.revive()
			_ = awaitReady([]*node{n}, readyTimeout)
			in.endReplacing()
		})
	}, err
}

// beginReplacing notes that a member is being replaced, and returns its id.
func (in *injector) beginReplacing(name string) (id uint64, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.replacing != "" {
		return 0, fmt.Errorf("%s is being replaced", in.mu.replacing)
	}
	if id = in.mu.ids[name]; id == 0 {
		return 0, errors.New("its id is not known")
	}
	in.mu.replacing = name
	return id, nil
}

func (in *injector) endReplacing() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.replacing = ""
}

// join adds a member to the cluster again, without data, if it was removed. id is the one that
// it had.
func (in *injector) join(i int, id uint64, other *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	n, m := in.members[i], in.configs[i]
	list, err := other.MemberList(ctx)
	if err != nil || slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.ID == id }) {
		return err
	}
	n.kill()
	m.Joins = true
	if err := os.RemoveAll(m.DataDir); err != nil {
		return err
	}
	url := m.Peers[m.Name]
	for _, member := range list.Members {
		if slices.Contains(member.PeerURLs, url) { // it was added, and the answer was lost
			in.setID(m.Name, member.ID)
			return nil
		}
	}
	added, err := other.MemberAdd(ctx, []string{url})
	if err == nil {
		in.setID(m.Name, added.Member.ID)
	}
	return err
}

func (in *injector) setID(name string, id uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.ids[name] = id
}

// A member on a slow disk answers in bursts. Here the whole member does, its heartbeats
// included: it stands still for stall, and goes on for as long as spurt.
const (
	stall = 150 * time.Millisecond
	spurt = 30 * time.Millisecond
)

func (in *injector) slow(f *fault) (end func(), err error) {
	n, done := in.node(f), make(chan struct{})
	var stalling sync.WaitGroup
	stalling.Go(func() {
		for {
			n.signal(syscall.SIGSTOP)
			<-time.After(stall)
			n.signal(syscall.SIGCONT)
			select {
			case <-time.After(spurt):
			case <-done:
				return
			}
		}
	})
	return func() { close(done); stalling.Wait() }, nil
}

// etcdTimeout bounds a request to etcd.
const etcdTimeout = 4 * time.Second

// call sends a request to the member that a fault names, and does not wait for the answer.
func (in *injector) call(f *fault, request func(context.Context, *clientv3.Client) error) (end func(), err error) {
	for i, m := range in.members {
		if m.name != f.target {
			continue
		}
		in.calls.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
			defer cancel()
			if err := request(ctx, in.clients[i]); err != nil {
				in.tell(time.Since(in.began), fmt.Sprintf("%s failed: %v", f, err))
			}
		})
	}
	return nil, nil
}

// keptRevisions is how many revisions a compaction leaves at most.
const keptRevisions = 60

// compact compacts etcd, up to a revision that is a little older than the newest.
func (in *injector) compact(f *fault) (end func(), err error) {
	return in.call(f, func(ctx context.Context, client *clientv3.Client) error {
		now, err := client.Get(ctx, "any")
		if err != nil {
			return err
		}
		_, err = client.Compact(ctx, now.Header.Revision-int64(f.choice%keptRevisions))
		return err
	})
}

// fallBehind cuts off a server from etcd, which has forgotten what the server missed when it is
// back.
func (in *injector) fallBehind(f *fault) (end func(), err error) {
	var all []link
	for _, m := range in.members {
		all = append(all, link{f.target, m.name})
	}
	lift := in.network.impose(condition{cut: true}, all...)
	return func() {
		defer lift()
		ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
		defer cancel()
		client := in.clients[f.choice%len(in.clients)]
		now, err := client.Get(ctx, "any")
		if err == nil {
			_, err = client.Compact(ctx, now.Header.Revision)
		}
		if err != nil {
			in.tell(time.Since(in.began), fmt.Sprintf("%s: etcd is not compacted: %v", f, err))
		}
	}, nil
}

func (in *injector) defragment(f *fault) (end func(), err error) {
	return in.call(f, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Defragment(ctx, client.Endpoints()[0])
		return err
	})
}

// moveLeader has the target become the leader. Only the leader may be asked.
func (in *injector) moveLeader(f *fault) (end func(), err error) {
	return in.call(f, func(ctx context.Context, client *clientv3.Client) error {
		next, err := client.Status(ctx, client.Endpoints()[0])
		if err != nil {
			return err
		}
		for _, leader := range in.clients {
			status, err := leader.Status(ctx, leader.Endpoints()[0])
			if err == nil && status.Header.MemberId == next.Leader {
				_, err = leader.MoveLeader(ctx, next.Header.MemberId)
				return err
			}
		}
		return errors.New("no member is known to lead")
	})
}

func (in *injector) silence(f *fault) (end func(), err error) {
	return in.network.impose(condition{holdForth: true, holdBack: true}, in.links(f)...), nil
}

func (in *injector) cut(f *fault) (end func(), err error) {
	return in.network.impose(condition{cut: true}, in.links(f)...), nil
}

func (in *injector) holdOne(f *fault) (end func(), err error) {
	back := f.choice%4 < 2
	return in.network.impose(condition{holdForth: !back, holdBack: back}, in.links(f)...), nil
}

// maxDelay is the longest delay of a link in each direction, in milliseconds.
const maxDelay = 400

func (in *injector) delay(f *fault) (end func(), err error) {
	return in.network.impose(condition{delay: time.Duration(1+f.choice%maxDelay) * time.Millisecond}, in.links(f)...), nil
}

// links are those between the target and others: of a member, those to the other members and,
// in one case of two, to its clients; of others, what they dial, in one case of two only one
// of the members.
func (in *injector) links(f *fault) (all []link) {
	whole := f.choice%2 == 0
	for i, m := range in.members {
		if f.target != m.name {
			continue
		}
		for j, other := range in.members {
			if i != j {
				all = append(all, link{in.peerName(m.name), other.name}, link{in.peerName(other.name), m.name})
			}
		}
		for _, n := range in.nodes() {
			if whole {
				all = append(all, link{n.name, m.name})
			}
		}
		return all
	}
	one := f.choice / 2 % len(in.members)
	for i, n := range in.nodes() {
		if whole || i == one || i >= len(in.members) {
			all = append(all, link{f.target, n.name})
		}
	}
	return all
}

// findIDs asks the members for their ids.
func (in *injector) findIDs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.ids = map[string]uint64{}
	for i, client := range in.clients {
		if status, err := client.Status(ctx, client.Endpoints()[0]); err == nil {
			in.mu.ids[in.members[i].name] = status.Header.MemberId
		}
	}
}

// peerName is how a member names itself to others.
func (in *injector) peerName(name string) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return strconv.FormatUint(in.mu.ids[name], 16)
}
