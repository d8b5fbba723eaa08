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

// bystander is a client that is not part of the fleet. It gets one object every getEvery. The time of
// a request counts from when it is due, even if the request before still waits for its answer.
type bystander struct {
	conn   *testbed.Conn
	target *testbed.Target
	stop   context.CancelFunc // set by begin
	result chan answers       // gets what the goroutine of begin has received
}

// answers are the answers to a bystander: the time until the first answer, and the times of later
// requests.
type answers struct {
	first time.Duration // since the start; 0: no answer yet
	times []time.Duration
}

// newBystander returns a bystander of a server. It opens no connection. Flow control applies to its
// user as to all clients.
func newBystander(server *testbed.Target) (*bystander, error) {
	cfg := testbed.TargetConfig{REST: rest.CopyConfig(server.Config.REST)}
	cfg.REST.Impersonate.UserName = "system:serviceaccount:default:bystander"
	target, err := testbed.NewTarget(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := target.Dial(0)
	return &bystander{conn: conn, target: target, result: make(chan answers, 1)}, err
}

// begin starts a goroutine that sends requests, the first request at start. The caller must call end, or
// stop if nothing was measured.
func (b *bystander) begin(ctx context.Context, start time.Time) {
	ctx, b.stop = context.WithCancel(ctx)
	go func() {
		var received answers
		defer func() { b.result <- received }()
		for due := start; ; due = due.Add(getEvery) {
			if testbed.Sleep(ctx, time.Until(due)) != nil {
				return
			}
			for b.get(ctx) != nil {
				if testbed.Sleep(ctx, getEvery) != nil {
					return
				}
			}
			if received.first == 0 {
				received.first = time.Since(start)
				due = start.Add(received.first.Truncate(getEvery))
				continue
			}
			received.times = append(received.times, time.Since(due))
		}
	}()
}

// get sends one request, and returns an error unless the status is 200.
func (b *bystander) get(ctx context.Context) error {
	req, err := b.target.NewRequest(ctx, testbed.Request{URI: getURI, Accept: testbed.AcceptJSON})
	if err == nil {
		_, err = b.conn.Fetch(req)
	}
	return err
}

// end ends the bystander, and returns its answers.
func (b *bystander) end() answers {
	b.stop()
	received := <-b.result
	b.conn.Close()
	return received
}
