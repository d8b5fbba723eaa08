package etcdfeed_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
)

// streams counts the loads by stream of a client, and meddles with them.
type streams struct {
	client *clientv3.Client
	opened atomic.Int64
	// received is called after each chunk, with the stream's context and the numbers of the
	// stream and of the chunk, from 1 on. An error of it replaces the chunk.
	received func(ctx context.Context, stream, chunk int64) error
}

func newStreams(t *testing.T, e *etcdserver.Etcd, received func(ctx context.Context, stream, chunk int64) error) *streams {
	t.Helper()
	s := &streams{received: received}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(s.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s.client = client
	return s
}

// intercept is a grpc.StreamClientInterceptor.
func (s *streams) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	opened, err := open(ctx, desc, conn, method, opts...)
	if err != nil || !strings.HasSuffix(method, "/RangeStream") {
		return opened, err
	}
	return &chunkStream{ClientStream: opened, streams: s, number: s.opened.Add(1)}, nil
}

type chunkStream struct {
	grpc.ClientStream
	streams        *streams
	number, chunks int64
}

// RecvMsg implements grpc.ClientStream.
func (c *chunkStream) RecvMsg(m any) error {
	if err := c.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	c.chunks++
	if c.streams.received == nil {
		return nil
	}
	return c.streams.received(c.Context(), c.number, c.chunks)
}

// fill writes objects that take several chunks, and returns them with the last revision.
func fill(t *testing.T, e *etcdserver.Etcd) (objects map[string]string, revision int64) {
	t.Helper()
	objects = map[string]string{}
	for i := range 300 {
		key, value := fmt.Sprintf("/registry/pods/%03d", i), strings.Repeat("x", 20<<10)
		objects[key] = value
		revision = put(t, e.Client().Client, key, value)
	}
	return objects, revision
}

// TestFeedLoadsStream loads by one stream, whose end is the newest or an older revision.
func TestFeedLoadsStream(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	want, revision := fill(t, e)
	for _, history := range []int64{-1, 10} {
		sink, s := &mirror{}, newStreams(t, e, nil)
		followWith(t, etcdfeed.FeedConfig{Client: s.client, Sink: sink, Stream: true, HistoryRevisions: history})
		eventually(t, "load", sink.reached(revision))
		sink.wantObjects(t, want)
		if n := s.opened.Load(); n != 1 || len(sink.mu.pages) < 3 {
			t.Errorf("%d streams, pages of %v: want one stream of several chunks", n, sink.mu.pages)
		}
	}
}

// TestFeedWithoutStreams loads in pages where etcd has no streams, or none are wanted.
func TestFeedWithoutStreams(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	want, revision := fill(t, e)
	old := newStreams(t, e, func(context.Context, int64, int64) error {
		return status.Error(codes.Unimplemented, "unknown method RangeStream")
	})
	unwanted := newStreams(t, e, nil)
	for _, c := range []struct {
		name    string
		client  *clientv3.Client
		stream  bool
		streams *streams
		want    int64
	}{
		{"etcd is old", old.client, true, old, 1},
		{"no streams are wanted", unwanted.client, false, unwanted, 0},
		{"inside the process", e.Client().Client, true, unwanted, 0},
	} {
		sink := &mirror{}
		followWith(t, etcdfeed.FeedConfig{Client: c.client, Sink: sink, Stream: c.stream, HistoryRevisions: -1})
		eventually(t, c.name+": load", sink.reached(revision))
		sink.wantObjects(t, want)
		if got := sink.mu.pages[0]; got != 200 {
			t.Errorf("%s: the first page has %d objects, not 200", c.name, got)
		}
		if got := c.streams.opened.Load(); got != c.want {
			t.Errorf("%s: %d streams, want %d", c.name, got, c.want)
		}
	}
}

// TestFeedStreamBreaks loads again after a stream that broke in the middle, or that
// ended there without an error.
func TestFeedStreamBreaks(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	want, revision := fill(t, e)
	for _, c := range []struct {
		name string
		err  error
	}{
		{"breaks", status.Error(codes.Unavailable, "connection lost")},
		{"is cut short", io.EOF},
		{"is gone", status.Error(codes.OutOfRange, "etcdserver: mvcc: required revision has been compacted")},
	} {
		sink := &mirror{}
		s := newStreams(t, e, func(_ context.Context, stream, chunk int64) error {
			if stream == 1 && chunk == 3 {
				return c.err
			}
			return nil
		})
		followWith(t, etcdfeed.FeedConfig{Client: s.client, Sink: sink, Stream: true, HistoryRevisions: -1})
		eventually(t, c.name+": second load", sink.reached(revision))
		sink.wantObjects(t, want)
		if n, loads := s.opened.Load(), sink.loads(); n != 2 || loads != 1 {
			t.Errorf("%s: %d streams and %d loads, want two streams and one load", c.name, n, loads)
		}
	}
}

// TestFeedStopsStream ends a feed while its stream sends.
func TestFeedStopsStream(t *testing.T) {
	t.Parallel()
	e := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(e.Close)
	fill(t, e)
	sending := make(chan bool)
	s := newStreams(t, e, func(ctx context.Context, _, chunk int64) error {
		if chunk == 2 {
			close(sending)
			<-ctx.Done()
		}
		return ctx.Err()
	})
	sink := &mirror{}
	f, stop := followWith(t, etcdfeed.FeedConfig{Client: s.client, Sink: sink, Stream: true, HistoryRevisions: -1})
	<-sending
	stop()
	if sink.loads() != 0 || f.Healthy() == nil {
		t.Error("a load that was stopped is complete")
	}
}
