package storm

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// getEvery is the time between the requests of a bystander.
	getEvery = 50 * time.Millisecond
	getURI   = "/api/v1/namespaces/default"
)

// bystander is a client of its own, which gets one object again and again. A request counts from
// when it is due, also while the one before waits for its answer.
type bystander struct {
	conn   *testbed.Conn
	target *testbed.Target
	stop   context.CancelFunc
	seen   chan answers
}

// answers are what a bystander received: when the first one came, and how long the later ones
// took.
type answers struct {
	first time.Duration
	times []time.Duration
}

// newBystander connects to nothing yet. Flow control holds for its user, as for all clients.
func newBystander(of *testbed.Target) (*bystander, error) {
	cfg := testbed.TargetConfig{REST: rest.CopyConfig(of.Config.REST)}
	cfg.REST.Impersonate.UserName = "system:serviceaccount:default:bystander"
	target, err := testbed.NewTarget(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := target.Dial(0)
	return &bystander{conn: conn, target: target, seen: make(chan answers, 1)}, err
}

// begin begins to send. The caller must call end.
func (b *bystander) begin(ctx context.Context, start time.Time) {
	ctx, b.stop = context.WithCancel(ctx)
	go func() {
		var seen answers
		defer func() { b.seen <- seen }()
		for due := start; ; due = due.Add(getEvery) {
			if testbed.Sleep(ctx, time.Until(due)) != nil {
				return
			}
			for b.get(ctx) != nil {
				if testbed.Sleep(ctx, getEvery) != nil {
					return
				}
			}
			if seen.first == 0 {
				seen.first = time.Since(start)
				due = start.Add(seen.first.Truncate(getEvery))
				continue
			}
			seen.times = append(seen.times, time.Since(due))
		}
	}()
}

func (b *bystander) get(ctx context.Context) error {
	req, err := b.target.NewRequest(ctx, testbed.Request{URI: getURI, Accept: testbed.AcceptJSON})
	if err == nil {
		_, err = b.conn.Fetch(req)
	}
	return err
}

// end ends it, and returns what it has received.
func (b *bystander) end() answers {
	b.stop()
	seen := <-b.seen
	b.conn.Close()
	return seen
}
