package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// errDisconnected ends the streams of a connection that ends.
var errDisconnected = errors.New("h2: client disconnected")

const (
	// greetingTimeout is how long a client may take for its preface and settings.
	greetingTimeout = 10 * time.Second
	// farewellTimeout is how long a client has to read the last frames, of the connection
	// or of a stream whose handler was aborted. A connection that is closed while bytes of
	// the client are on their way loses what the client has not read.
	farewellTimeout = time.Second
	// leaveTime is how long a client may take to read that it is to open no more streams,
	// and maxCrossing how many it may open until then.
	leaveTime   = time.Second
	maxCrossing = 16
	// maxControl bounds the control frames that wait to be written, in bytes. A client
	// that causes more without reading any is cut off.
	maxControl = 64 << 10
	// maxEmpty bounds the frames in a row that say nothing.
	maxEmpty = 1000
)

// phase is where a connection is in its life.
//
//	serving ──Shutdown, idle──► leaving ──leaveTime──► draining ──last stream──► closed
//	   ├────────the client's GOAWAY───────────────────────►│                       ▲
//	   └───────a breach of the protocol────► failed ◄──────┘                       │
//	                                            └────────the client has been told──┘
type phase int

const (
	serving  phase = iota
	leaving        // told to go elsewhere: streams that the client opens before it reads that are served
	draining       // told which stream is the last: streams that are there go on
	failed         // told what it did wrong: nothing else is read or written
	closed
)

// conn is a connection. Its lock is taken before that of a body and the Server's;
// no lock is held while a Source is asked and while bytes are written.
type conn struct {
	server  *Server
	hs      *http.Server
	nc      net.Conn
	tls     *tls.ConnectionState
	handler http.Handler
	remote  string
	ctx     context.Context
	// framer reads for the reader, and writes to mu.control under the lock.
	framer *http2.Framer
	// nameCache are the reader's, as is what follows.
	nameCache   nameCache
	emptyFrames int
	// nextToStart is a stream whose handler is to run.
	nextToStart *stream
	// successors are those that took over from the first one.
	successors sync.WaitGroup

	woken wakeList
	// queued says that a worker is to look.
	queued atomic.Bool

	mu struct {
		sync.Mutex
		phase   phase
		streams map[uint32]*stream
		// last is the newest stream's ID.
		lastStreamID uint32
		reader       reader
		// running handlers, and streams that wait for one of them to end.
		runningHandlers int
		waitingStreams  []*stream
		// acknowledged says that the client knows our settings.
		settingsAcked bool

		in            inflow
		out           outflow
		initialWindow int64

		// control are frames that wait to be written.
		control  bytes.Buffer
		queues   queues
		discards discardSet
		turn     turn

		idleTimer *time.Timer
		idleSince time.Time
		// leave ends leaving, crossing counts the streams that were opened meanwhile.
		leaveTimer    *time.Timer
		crossing      int
		farewellTimer *time.Timer
	}
}

func newConn(s *Server, hs *http.Server, nc net.Conn) *conn {
	c := &conn{
		server: s, hs: hs, nc: nc, remote: nc.RemoteAddr().String(),
	}
	m := &c.mu
	m.streams = make(map[uint32]*stream)
	m.in = newInflow(minWindow)
	m.out, m.initialWindow = minWindow, minWindow
	m.turn.encoder = hpack.NewEncoder(&m.turn.block)
	c.framer = http2.NewFramer(&m.control, nc)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = maxHeaderList(hs)
	c.framer.SetMaxReadFrameSize(s.cfg.MaxReadFrameSize)
	c.framer.SetReuseFrames()
	return c
}

// maxHeaderList is http.Server.MaxHeaderBytes in the units of HTTP/2, which count
// 32 bytes more for each field (RFC 9113, 6.5.2).
func maxHeaderList(hs *http.Server) uint32 {
	n := hs.MaxHeaderBytes
	if n <= 0 {
		n = http.DefaultMaxHeaderBytes
	}
	return uint32(n) + 10*32
}

// serve serves the connection until it ends.
func (c *conn) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.ctx = ctx
	if c.tls != nil && !isAdequateTLS(c.tls) {
		_ = c.framer.WriteGoAway(0, http2.ErrCodeInadequateSecurity, nil)
		_, _ = c.nc.Write(c.mu.control.Bytes()) // it is closed in any case
		c.nc.Close()
		return
	}
	c.greet()
	leaving := c.server.register(c)
	if leaving {
		c.goAwayGracefully()
	}
	if c.readPreface() {
		c.read(true)
	}
	c.successors.Wait()
	c.close()
	c.server.unregister(c)
}

// greet sends our settings.
func (c *conn) greet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := &c.server.cfg
	// The errors are those of a bytes.Buffer.
	_ = c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: cfg.MaxReadFrameSize},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: cfg.MaxConcurrentStreams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.framer.MaxHeaderListSize},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(cfg.MaxUploadBufferPerStream)},
	)
	if more := cfg.MaxUploadBufferPerConnection - minWindow; more > 0 {
		_ = c.framer.WriteWindowUpdate(0, uint32(more))
		c.mu.in = newInflow(cfg.MaxUploadBufferPerConnection)
	}
	c.kick()
}

// setStateLocked tells the http.Server's hook, as Go's server does.
func (c *conn) setStateLocked(state http.ConnState) {
	if c.hs.ConnState != nil {
		c.hs.ConnState(c.nc, state)
	}
}

// startIdleTimerLocked begins the time that a connection may have no streams. The timer runs
// on when a stream begins: it is cheaper to look at the time when it fires.
func (c *conn) startIdleTimerLocked() {
	timeout := c.server.cfg.IdleTimeout
	if timeout <= 0 || c.mu.phase != serving {
		return
	}
	c.mu.idleSince = time.Now()
	if c.mu.idleTimer == nil {
		c.mu.idleTimer = time.AfterFunc(timeout, c.checkIdle)
	}
}

func (c *conn) checkIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.streams) > 0 || c.mu.phase != serving {
		c.mu.idleTimer = nil
		return
	}
	if left := time.Until(c.mu.idleSince.Add(c.server.cfg.IdleTimeout)); left > 0 {
		c.mu.idleTimer.Reset(left)
		return
	}
	c.goAwayLocked()
}

// goAwayGracefully is goAwayLocked with the lock taken.
func (c *conn) goAwayGracefully() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAwayLocked()
}

// goAwayLocked tells the client to open no more streams here. Those that it opens before
// it reads that are served: not all clients send refused requests again (RFC 9113, 6.8).
func (c *conn) goAwayLocked() {
	if c.mu.phase != serving {
		return
	}
	c.mu.phase = leaving
	_ = c.framer.WriteGoAway(math.MaxInt32, http2.ErrCodeNo, nil)
	c.mu.leaveTimer = time.AfterFunc(leaveTime, c.drain)
	c.kick()
}

// countCrossingLocked counts a stream that was opened while the connection is being left.
func (c *conn) countCrossingLocked() {
	if c.mu.phase != leaving {
		return
	}
	if c.mu.crossing++; c.mu.crossing >= maxCrossing {
		c.drainLocked()
	}
}

// drain is drainLocked with the lock taken.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainLocked()
}

// goAwayAfterLocked tells the client to open no more streams behind a stream, if that is about
// to end: some clients take nothing more of a connection that is told so, and send nothing.
func (c *conn) goAwayAfterLocked(s *stream, ends bool) {
	if ends && s.state != streamClosed {
		s.goAwayAfter = true
		return
	}
	c.goAwayLocked()
}

// drainLocked tells the client which stream is the last one that is served.
func (c *conn) drainLocked() {
	if c.mu.phase >= draining {
		return
	}
	c.mu.phase = draining
	_ = c.framer.WriteGoAway(c.mu.lastStreamID, http2.ErrCodeNo, nil)
	c.kick()
	c.closeIfDrainedLocked()
}

// closeIfDrainedLocked closes a connection that is left without streams.
func (c *conn) closeIfDrainedLocked() {
	if c.mu.phase == draining && len(c.mu.streams) == 0 {
		c.sayFarewellLocked()
	}
}

func (c *conn) sayFarewellLocked() {
	if c.mu.farewellTimer == nil {
		c.mu.farewellTimer = time.AfterFunc(farewellTimeout, c.endFarewell)
	}
}

// endFarewell closes the connection, unless its client is about to send a body behind
// an answer and the server stays.
func (c *conn) endFarewell() {
	c.mu.Lock()
	if c.mu.phase == draining && c.mu.discards.progressed() && !c.server.isShuttingDown() {
		c.mu.farewellTimer.Reset(farewellTimeout)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.close()
}

// fail tells the client what it did wrong and ends all streams.
func (c *conn) fail(code http2.ErrCode) {
	c.mu.Lock()
	if c.mu.phase < failed {
		c.mu.phase = failed
		_ = c.framer.WriteGoAway(c.mu.lastStreamID, code, nil)
		c.closeStreamsLocked()
		c.sayFarewellLocked()
		c.kick()
	}
	c.mu.Unlock()
	_, _ = io.Copy(io.Discard, c.nc) // until either side closes
}

// close ends the connection.
func (c *conn) close() {
	c.mu.Lock()
	if c.mu.phase == closed {
		c.mu.Unlock()
		return
	}
	c.mu.phase = closed
	c.closeStreamsLocked()
	c.mu.discards.stop()
	for _, t := range []*time.Timer{c.mu.idleTimer, c.mu.leaveTimer, c.mu.farewellTimer} {
		if t != nil {
			t.Stop()
		}
	}
	c.mu.Unlock()
	c.woken.close()
	c.nc.Close()
}

func (c *conn) closeStreamsLocked() {
	c.mu.waitingStreams = nil
	for _, s := range c.mu.streams {
		s.closeLocked(errDisconnected)
	}
}

func (c *conn) logf(format string, args ...any) {
	if c.hs.ErrorLog != nil {
		c.hs.ErrorLog.Printf(format, args...)
		return
	}
	_ = log.Default().Output(2, fmt.Sprintf(format, args...))
}
