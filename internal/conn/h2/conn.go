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

// errDisconnected is the error of streams whose connection has ended.
var errDisconnected = errors.New("h2: client disconnected")

const (
	// greetingTimeout is how long a client may take to send its preface and settings.
	greetingTimeout = 10 * time.Second
	// farewellTimeout is how long a client has to read the last frames of a connection,
	// or of a stream whose handler was aborted. Closing immediately while bytes of the client
	// are under way would make TCP reset the connection. The client would then lose what
	// it has not read.
	farewellTimeout = time.Second
	// leaveTime is how long a client may take to read the first GOAWAY. maxCrossing is
	// how many streams it may open until then.
	leaveTime   = time.Second
	maxCrossing = 16
	// maxControl bounds the control frames that wait to be written, in bytes. A client
	// that provokes more without reading them is disconnected.
	maxControl = 64 << 10
	// maxEmpty bounds the number of DATA frames in a row that carry nothing.
	maxEmpty = 1000
)

// phase is the stage of a connection's life.
//
//	serving ──Shutdown, idle──► leaving ──leaveTime──► draining ──last stream──► closed
//	   ├────────the client's GOAWAY───────────────────────►│                       ▲
//	   └───────a breach of the protocol────► failed ◄──────┘                       │
//	                                            └────────farewellTimeout───────────┘
//
// leaving and draining are the two steps of a graceful shutdown (RFC 9113, 6.8). A first
// GOAWAY names no stream. A second one names the last stream that is served.
type phase int

const (
	serving  phase = iota
	leaving        // the first GOAWAY is sent: streams that the client opens before it reads that are served
	draining       // the second GOAWAY is sent: open streams go on, newer ones are ignored
	failed         // a GOAWAY with an error is sent: nothing else is read or written
	closed
)

// conn is a connection.
//
// Lock order: conn.mu, then body.mu, Server.mu and wakeList.mu, which are leaves. No lock
// is held while a Source is asked or bytes are written.
type conn struct {
	server  *Server
	hs      *http.Server
	nc      net.Conn
	tls     *tls.ConnectionState
	handler http.Handler
	remote  string
	ctx     context.Context
	// framer reads frames for the reader. It writes control frames to mu.control, under
	// the lock.
	framer *http2.Framer
	// nameCache, emptyFrames and nextToStart belong to the reader. emptyFrames counts DATA frames
	// in a row that carry nothing.
	nameCache   nameCache
	emptyFrames int
	// nextToStart is a stream whose handler the reader starts after the current frame.
	nextToStart *stream
	// successors are the goroutines that took over reading from the first reader.
	successors sync.WaitGroup

	woken wakeList
	// queued says that the connection is a task in the workers' queue.
	queued atomic.Bool

	mu struct {
		sync.Mutex
		phase   phase
		streams map[uint32]*stream
		// lastStreamID is the ID of the newest stream.
		lastStreamID uint32
		reader       reader
		// runningHandlers counts handlers that run.
		runningHandlers int
		// waitingStreams are the streams whose handlers wait until another handler ends.
		waitingStreams []*stream
		// settingsAcked says that the client has acknowledged our settings.
		settingsAcked bool

		in            inflow
		out           outflow
		initialWindow int64

		// control holds control frames that wait to be written.
		control  bytes.Buffer
		queues   queues
		discards discardSet
		turn     turn
		// stalled is the number of streams whose bytes wait for a flow-control window.
		stalled int

		idleTimer *time.Timer
		idleSince time.Time
		// leaveTimer ends the phase leaving.
		leaveTimer *time.Timer
		// crossing counts the streams that were opened in the phase leaving.
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

// maxHeaderList converts http.Server.MaxHeaderBytes to SETTINGS_MAX_HEADER_LIST_SIZE,
// which counts 32 bytes more for each field (RFC 9113, 6.5.2). Ten fields are allowed
// for.
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
		_, _ = c.nc.Write(c.mu.control.Bytes()) // the connection is closed in any case
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
	// Writes to a bytes.Buffer do not fail.
	_ = c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: cfg.MaxReadFrameSize},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: cfg.MaxConcurrentStreams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.framer.MaxHeaderListSize},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(cfg.MaxUploadBufferPerStream)},
	)
	if growth := cfg.MaxUploadBufferPerConnection - minWindow; growth > 0 {
		_ = c.framer.WriteWindowUpdate(0, uint32(growth))
		c.mu.in = newInflow(cfg.MaxUploadBufferPerConnection)
	}
	c.kick()
}

// setStateLocked calls the http.Server's ConnState hook, as Go's server does.
func (c *conn) setStateLocked(state http.ConnState) {
	if c.hs.ConnState != nil {
		c.hs.ConnState(c.nc, state)
	}
}

// startIdleTimerLocked begins the time that a connection may have no streams. The timer
// is not stopped when a stream begins: it is cheaper to compare times when it fires.
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

// GoAway asks the client to open no more streams on this response's connection. Open
// streams go on.
func (r *response) GoAway() { r.stream.conn.goAwayGracefully() }

// goAwayGracefully is goAwayLocked for callers without the lock.
func (c *conn) goAwayGracefully() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAwayLocked()
}

// goAwayLocked asks the client to open no more streams on this connection. Streams that
// it opens before it reads that are served, because not all clients repeat refused
// requests (RFC 9113, 6.8).
func (c *conn) goAwayLocked() {
	if c.mu.phase != serving {
		return
	}
	c.mu.phase = leaving
	_ = c.framer.WriteGoAway(math.MaxInt32, http2.ErrCodeNo, nil)
	c.mu.leaveTimer = time.AfterFunc(leaveTime, c.drain)
	c.kick()
}

// countCrossingLocked counts a stream that was opened in the phase leaving.
func (c *conn) countCrossingLocked() {
	if c.mu.phase != leaving {
		return
	}
	if c.mu.crossing++; c.mu.crossing >= maxCrossing {
		c.drainLocked()
	}
}

// drain is drainLocked for callers without the lock.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainLocked()
}

// goAwayAfterLocked sends a GOAWAY: after the stream if its end is about to be sent, else
// immediately. Some clients neither read nor send anything more on a connection after a
// GOAWAY.
func (c *conn) goAwayAfterLocked(s *stream, ends bool) {
	if ends && s.state != streamClosed {
		s.goAwayAfter = true
		return
	}
	c.goAwayLocked()
}

// drainLocked sends a GOAWAY with the last stream that is served.
func (c *conn) drainLocked() {
	if c.mu.phase >= draining {
		return
	}
	c.mu.phase = draining
	_ = c.framer.WriteGoAway(c.mu.lastStreamID, http2.ErrCodeNo, nil)
	c.kick()
	c.closeIfDrainedLocked()
}

// closeIfDrainedLocked begins the end of a draining connection that has no streams left.
func (c *conn) closeIfDrainedLocked() {
	if c.mu.phase == draining && len(c.mu.streams) == 0 {
		c.sayFarewellLocked()
	}
}

// sayFarewellLocked closes the connection once the client has had time to read the last
// frames.
func (c *conn) sayFarewellLocked() {
	if c.mu.farewellTimer == nil {
		c.mu.farewellTimer = time.AfterFunc(farewellTimeout, c.endFarewell)
	}
}

// endFarewell closes the connection. It waits on while the client still sends request
// bodies that were answered early, unless the server shuts down.
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

// fail sends a GOAWAY with an error, ends all streams, and reads until either side
// closes. The reader calls it.
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
