package source

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/millrace/millrace/internal/feed/etcdfeed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// TestDialDoesNotPing plays etcd and counts the pings of the client. gRPC pings for
// whatever arrives to size its windows, unless they are set.
func TestDialDoesNotPing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	pings := make(chan int, 1)
	go func() {
		// gRPC may close a connection as soon as it is made, and make another.
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			got, err := answerRanges(conn, 2)
			_ = conn.Close()
			if err == nil {
				pings <- got
			}
		}
	}()
	client, err := dial(storagebackend.TransportConfig{ServerList: []string{"http://" + l.Addr().String()}}, &etcdfeed.WatchStreams{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		if _, err := client.Client.Get(ctx, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-pings; got != 0 {
		t.Errorf("the client sent %d pings, want none", got)
	}
}

// brokenFeed is a feed that has been broken since a time.
type brokenFeed struct {
	Feed
	since time.Time
}

// BrokenSince implements Feed.
func (f brokenFeed) BrokenSince() time.Time { return f.since }

// TestBrokenSinceIsOfTheCluster has one of two clusters broken. Only its resources are.
func TestBrokenSinceIsOfTheCluster(t *testing.T) {
	e := NewEtcd(&Backends{Cache: cache.Config{}, Logger: slog.New(slog.DiscardHandler)}, EtcdConfig{})
	t.Cleanup(e.Close)
	since := time.Now()
	for resource, feed := range map[string]brokenFeed{"events": {since: since}, "pods": {}} {
		gr := schema.GroupResource{Resource: resource}
		config := storagebackend.Config{Transport: storagebackend.TransportConfig{ServerList: []string{"http://" + resource + ".invalid:2379"}}}
		if _, err := e.Of(config.ForResource(gr)); err != nil {
			t.Fatal(err)
		}
		e.mu.byResource[gr].Feed = feed
	}
	for resource, want := range map[string]time.Time{"events": since, "pods": {}, "unknown": {}} {
		if got := e.BrokenSince(schema.GroupResource{Resource: resource}); got != want {
			t.Errorf("%s: %v, want %v", resource, got, want)
		}
	}
}

// answerRanges answers so many calls with an empty message each, and returns the
// number of pings that arrived until then.
func answerRanges(conn net.Conn, calls int) (pings int, err error) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return 0, err
	}
	framer := http2.NewFramer(conn, conn)
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	write := func(stream uint32, end bool, names ...string) {
		block.Reset()
		for i := 0; i < len(names); i += 2 {
			_ = fields.WriteField(hpack.HeaderField{Name: names[i], Value: names[i+1]})
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: end, EndHeaders: true})
	}
	_ = framer.WriteSettings()
	for calls > 0 {
		frame, err := framer.ReadFrame()
		if err != nil {
			return 0, err
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			pings++
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.DataFrame:
			if !f.StreamEnded() {
				continue
			}
			calls--
			write(f.StreamID, false, ":status", "200", "content-type", "application/grpc")
			_ = framer.WriteData(f.StreamID, false, []byte{0, 0, 0, 0, 0})
			write(f.StreamID, true, "grpc-status", "0")
		}
	}
	return pings, nil
}
