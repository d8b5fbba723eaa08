package replica

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// window is how many bytes a server may send ahead, on a connection and on each of its
	// streams. It is widened when half of it has been read.
	window = 1 << 24
	// defaultWindow is a connection's before it is widened.
	defaultWindow  = 65535
	readBufferSize = 64 << 10
	// retryAfter is the pause before a watch that was refused: client-go's first one.
	retryAfter = 800 * time.Millisecond
)

// client is a program with an informer of each resource, which share its connection. One
// goroutine reads for all of them: a fleet would otherwise take more CPU than the server.
type client struct {
	fleet  *fleet
	target *testbed.Target

	conn      net.Conn
	out       *bufio.Writer
	framer    *http2.Framer
	headers   bytes.Buffer
	encoder   *hpack.Encoder
	authority string

	informers []*informer
	streams   map[uint32]*informer
	next      uint32          // the id of the next stream
	unread    uint32          // bytes for which the connection's window was not widened yet
	writing   sync.Mutex      // guards what is below conn, but for reading
	now       int64           // when the present frame was read, in nanoseconds since 1970
	spans     []time.Duration // of measured events
}

func newClient(f *fleet, target *testbed.Target) *client {
	c := &client{fleet: f, target: target, streams: map[uint32]*informer{}, next: 1}
	for _, r := range watchedResources() {
		c.informers = append(c.informers, newInformer(c, r))
	}
	return c
}

// connect opens the connection and begins all watches.
func (c *client) connect(ctx context.Context) error {
	address, err := url.Parse(c.target.BaseURL)
	if err != nil {
		return fmt.Errorf("parse address of server: %w", err)
	}
	if c.conn, err = c.target.DialTLS(ctx); err != nil {
		return err
	}
	c.authority, c.out = address.Host, bufio.NewWriter(c.conn)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(c.conn, readBufferSize))
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.headers)
	_, err = io.WriteString(c.out, http2.ClientPreface)
	err = errors.Join(err,
		c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}),
		c.framer.WriteWindowUpdate(0, window-defaultWindow))
	for _, i := range c.informers {
		err = errors.Join(err, c.begin(i))
	}
	if err = errors.Join(err, c.out.Flush()); err != nil {
		return fmt.Errorf("send requests: %w", err)
	}
	return nil
}

// begin sends the request for an informer's next watch. The caller flushes.
func (c *client) begin(i *informer) error {
	c.headers.Reset()
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: c.authority}, {Name: ":path", Value: i.uri()},
		{Name: "accept", Value: testbed.AcceptJSON}, {Name: "user-agent", Value: "millrace-bench"},
	}
	if token := c.target.Config.REST.BearerToken; token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + token, Sensitive: true})
	}
	for _, f := range fields {
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	c.streams[c.next] = i
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.headers.Bytes(), EndStream: true, EndHeaders: true})
	c.next += 2
	return err
}

// follow reads frames until the connection is closed, which is always an error.
func (c *client) follow() error {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return fmt.Errorf("the server ended the connection: %w", err)
		}
		now := time.Now().UnixNano()
		if err := c.write(func() error { c.now = now; return c.handle(frame) }); err != nil {
			return err
		}
	}
}

// write runs what may send frames, and sends them.
func (c *client) write(do func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := do(); err != nil || c.out.Buffered() == 0 {
		return err
	}
	return c.out.Flush()
}

func (c *client) handle(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return c.read(f)
	case *http2.MetaHeadersFrame:
		i := c.streams[f.StreamID]
		switch status := f.PseudoValue("status"); {
		case i == nil || status == "" || status == "200": // trailers have no status
		case status == "429" || status == "503" || status == "504":
			i.refused = true
		default:
			return fmt.Errorf("watch %s: status %s", i.resource.name, status)
		}
		return c.endIf(f.StreamEnded(), f.StreamID)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.framer.WritePing(true, f.Data)
		}
	case *http2.RSTStreamFrame:
		return fmt.Errorf("the server ended a watch: %s", f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server goes away: %s", f.ErrCode)
	}
	return nil
}

// read takes a part of a watch.
func (c *client) read(f *http2.DataFrame) error {
	i := c.streams[f.StreamID]
	if i == nil {
		return fmt.Errorf("data on stream %d, which is not open", f.StreamID)
	}
	i.scanner.Feed(f.Data(), i.arrive)
	if i.failure != "" {
		return fmt.Errorf("watch %s: %s", i.resource.name, i.failure)
	}
	c.unread, i.unread = c.unread+f.Length, i.unread+f.Length
	if err := errors.Join(c.widen(0, &c.unread), c.widen(f.StreamID, &i.unread)); err != nil {
		return err
	}
	return c.endIf(f.StreamEnded(), f.StreamID)
}

// widen lets the server send on, once enough was read.
func (c *client) widen(stream uint32, unread *uint32) error {
	if *unread < window/2 {
		return nil
	}
	defer func() { *unread = 0 }()
	return c.framer.WriteWindowUpdate(stream, *unread)
}

// endIf resumes the watch of a stream that has ended.
func (c *client) endIf(ended bool, stream uint32) error {
	i := c.streams[stream]
	if !ended || i == nil {
		return nil
	}
	delete(c.streams, stream)
	switch {
	case i.refused:
		i.retries++
		time.AfterFunc(retryAfter, func() { c.retry(i) })
		return nil
	case !i.synced:
		return fmt.Errorf("watch %s: the server ended it before all objects were sent", i.resource.name)
	}
	i.resumed++
	i.reset()
	return c.begin(i)
}

// retry begins the watch of an informer that was refused.
func (c *client) retry(i *informer) {
	err := c.write(func() error { i.reset(); return c.begin(i) })
	if err != nil {
		c.fleet.fail(fmt.Errorf("watch %s again: %w", i.resource.name, err)) // unless the fleet has ended
	}
}

// arrived counts the event of a write, and reports whether it is measured.
func (c *client) arrived(stamp int64) bool {
	since := c.fleet.measuredSince.Load()
	if since == 0 || stamp < since {
		return false
	}
	c.spans = append(c.spans, time.Duration(c.now-stamp))
	c.fleet.events.Add(1)
	return true
}
