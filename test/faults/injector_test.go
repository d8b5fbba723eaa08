package faults

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// injector injects the faults of a schedule into a cluster.
type injector struct {
	*cluster
	began time.Time
	// tell notes what happens, and when.
	tell func(at time.Duration, what string)
	// peers are the members' ids as they name themselves, by name.
	peers map[string]string
	ends  map[*fault]func()
	// calls are requests to etcd that are under way.
	calls sync.WaitGroup
}

// inject injects faults at their times, until the last one is over or the context ends. Then
// the cluster is whole again.
func (in *injector) inject(ctx context.Context, faults []*fault) {
	in.began, in.ends, in.peers = time.Now(), map[*fault]func(){}, in.peerIDs(ctx)
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
				all = append(all, link{in.peers[m.name], other.name}, link{in.peers[other.name], m.name})
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

// peerIDs are the ids of the members as they name themselves to each other.
func (in *injector) peerIDs(ctx context.Context) map[string]string {
	ids := map[string]string{}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	for i, client := range in.clients {
		if status, err := client.Status(ctx, client.Endpoints()[0]); err == nil {
			ids[in.members[i].name] = strconv.FormatUint(status.Header.MemberId, 16)
		}
	}
	return ids
}
