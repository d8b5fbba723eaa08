package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// EtcdProxy is a proxy between a server and its etcd that drops or delays events. So a server's
// cache becomes wrong, or falls behind, without a fault in the server.
type EtcdProxy struct {
	// Endpoint is the URL for the server.
	Endpoint string

	conn *grpc.ClientConn
	mu   struct {
		sync.Mutex
		// lost is the key whose events are dropped. "" drops nothing.
		lost string
		// held is closed when delayed events pass again. It is nil while events pass.
		held chan struct{}
	}
}

// StartEtcdProxy starts a proxy in this process.
func StartEtcdProxy(tb testing.TB, etcd *Etcd) *EtcdProxy {
	tb.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(etcd.Endpoint, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		tb.Fatalf("open client of etcd: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	p := &EtcdProxy{Endpoint: "http://" + listener.Addr().String(), conn: conn}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.forward), grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	go func() { _ = server.Serve(listener) }()
	tb.Cleanup(func() {
		p.Pass()
		server.Stop()
		_ = conn.Close()
	})
	return p
}

// EtcdServers returns the flag by which a server uses etcd through the proxy.
func (p *EtcdProxy) EtcdServers() string { return etcdServersFlag + p.Endpoint }

// Lose drops all events of a key from now on. With an empty key it drops nothing any more.
func (p *EtcdProxy) Lose(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lost = key
}

// Hold delays all events until Pass is called.
func (p *EtcdProxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.held == nil {
		p.mu.held = make(chan struct{})
	}
}

// Pass lets events pass again.
func (p *EtcdProxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.held != nil {
		close(p.mu.held)
		p.mu.held = nil
	}
}

// forward passes one call on to etcd. It is a grpc.StreamHandler.
func (p *EtcdProxy) forward(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	md, _ := metadata.FromIncomingContext(client.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(client.Context(), md.Copy()))
	defer cancel()
	etcd, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var message []byte
			if client.RecvMsg(&message) != nil {
				_ = etcd.CloseSend()
				return
			}
			if etcd.SendMsg(&message) != nil {
				return
			}
		}
	}()
	for {
		var message []byte
		if err := etcd.RecvMsg(&message); err != nil {
			client.SetTrailer(etcd.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if method == etcdserverpb.Watch_Watch_FullMethodName {
			if message, err = p.filter(ctx, message); err != nil {
				return err
			}
		}
		if err := client.SendMsg(&message); err != nil {
			return err
		}
	}
}

// filter waits while events are delayed, and removes the events of the lost key. A response
// that has no events left still reports the revision, as a progress notification does.
func (p *EtcdProxy) filter(ctx context.Context, message []byte) ([]byte, error) {
	p.mu.Lock()
	lost, held := p.mu.lost, p.mu.held
	p.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if lost == "" {
		return message, nil
	}
	response := &etcdserverpb.WatchResponse{}
	if err := proto.Unmarshal(message, response); err != nil {
		return nil, fmt.Errorf("decode watch response: %w", err)
	}
	response.Events = slices.DeleteFunc(response.Events, func(e *mvccpb.Event) bool { return string(e.Kv.Key) == lost })
	return proto.Marshal(response)
}

// rawCodec passes messages on as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}
