package injection

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// link is the way from one process to another one that it dials.
type link struct{ from, to string }

// condition is the condition of a link. The zero value passes everything on at once.
type condition struct {
	// cut resets all connections, and new ones at once.
	cut bool
	// holdForth and holdBack let nothing pass in a direction. What is sent waits, as TCP sends
	// it again and again: the other side is silent, and no connection breaks.
	holdForth, holdBack bool
	delay               time.Duration
}

// with is the condition of a link that has two.
func (c condition) with(other condition) condition {
	return condition{c.cut || other.cut, c.holdForth || other.holdForth, c.holdBack || other.holdBack, max(c.delay, other.delay)}
}

// network has a proxy for each link, and the conditions of all links.
//
//	dialer ─► proxy ─► listener     all on this machine
//
// It stands for cables between hosts. What it cannot do is lose a single packet: TCP would
// send it again.
type network struct {
	mu struct {
		sync.Mutex
		// conditions are those that are imposed, each with its links.
		conditions map[*condition]map[link]bool
		// changed is closed and replaced at each change.
		changed chan struct{}
	}
}

func newNetwork() *network {
	n := &network{}
	n.mu.conditions, n.mu.changed = map[*condition]map[link]bool{}, make(chan struct{})
	return n
}

// impose puts links into a condition, beside those that they are in, until lift is called.
func (n *network) impose(c condition, links ...link) (lift func()) {
	in := map[link]bool{}
	for _, l := range links {
		in[l] = true
	}
	n.change(func() { n.mu.conditions[&c] = in })
	return func() { n.change(func() { delete(n.mu.conditions, &c) }) }
}

// change changes conditions, and tells all pipes.
func (n *network) change(how func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	how()
	close(n.mu.changed)
	n.mu.changed = make(chan struct{})
}

// of returns the condition of a link, and a channel that is closed at the next change.
func (n *network) of(l link) (all condition, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, in := range n.mu.conditions {
		if in[l] {
			all = all.with(*c)
		}
	}
	return all, n.mu.changed
}

// place is where a process listens.
type place struct {
	name string
	port int
}

// proxy is what a process dials in place of others.
type proxy struct {
	*network
	from string
	// places are dialed until one answers: in their order if inOrder is set, and otherwise in a
	// random one.
	places  []place
	inOrder bool
	// peers says that several members dial the proxy: each connection names its own.
	peers bool
}

// listen starts a proxy until the test ends, and returns its port.
func (p *proxy) listen(tb testing.TB) int {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn.(*net.TCPConn))
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// pipe is a connection through a proxy.
type pipe struct {
	*network
	link
	near, far *net.TCPConn
	// done is closed when the pipe is.
	done chan struct{}
}

// serve connects a connection with one of the places.
func (p *proxy) serve(near *net.TCPConn) {
	var first []byte
	from := p.from
	if p.peers {
		if from, first = memberOf(near); from == "" {
			_ = near.Close()
			return
		}
	}
	order := rand.Perm(len(p.places))
	if p.inOrder {
		slices.Sort(order)
	}
	for _, i := range order {
		l := link{from, p.places[i].name}
		if c, _ := p.of(l); c.cut {
			continue
		}
		far, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.places[i].port))
		if err != nil {
			continue
		}
		(&pipe{p.network, l, near, far.(*net.TCPConn), make(chan struct{})}).run(first)
		return
	}
	reset(near)
}

// run passes bytes on until both sides have ended or the link is cut. first are bytes that
// were read already.
func (p *pipe) run(first []byte) {
	var passing sync.WaitGroup
	passing.Go(func() {
		p.pass(p.far, io.MultiReader(bytes.NewReader(first), p.near), func(c condition) bool { return c.holdForth })
	})
	passing.Go(func() { p.pass(p.near, p.far, func(c condition) bool { return c.holdBack }) })
	go func() {
		passing.Wait()
		close(p.done)
	}()
	for {
		c, changed := p.of(p.link)
		if c.cut {
			reset(p.near)
			reset(p.far)
		}
		select {
		case <-changed:
		case <-p.done:
			_ = p.near.Close()
			_ = p.far.Close()
			return
		}
	}
}

// passBytes is how much a direction holds beside the kernel's buffers.
const passBytes = 64 << 10

// pass copies one direction.
func (p *pipe) pass(to *net.TCPConn, from io.Reader, held func(condition) bool) {
	buffer := make([]byte, passBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.await(held)
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			p.await(held)
			_ = to.CloseWrite()
			return
		case err != nil:
			p.await(held)
			reset(p.near)
			reset(p.far)
			return
		}
	}
}

// await waits until bytes may pass, or the link is cut.
func (p *pipe) await(held func(condition) bool) {
	for {
		c, changed := p.of(p.link)
		switch {
		case c.cut:
			return
		case !held(c):
			if c.delay > 0 {
				<-time.After(c.delay)
			}
			return
		}
		<-changed
	}
}

// reset closes a connection with RST.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

const (
	// peerHeader names the member that dials another one.
	peerHeader = "X-Server-From: "
	// maxPeerHead and peerPatience bound the head of a peer's first request.
	maxPeerHead  = 4 << 10
	peerPatience = 5 * time.Second
)

// memberOf reads the head of a peer's first request, and returns the id of the member that
// sends it and the bytes that were read.
func memberOf(conn net.Conn) (id string, head []byte) {
	_ = conn.SetReadDeadline(time.Now().Add(peerPatience))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	lines := bufio.NewReader(io.LimitReader(conn, maxPeerHead))
	for {
		line, err := lines.ReadBytes('\n')
		head = append(head, line...)
		if found, ok := bytes.CutPrefix(line, []byte(peerHeader)); ok {
			id = string(bytes.TrimSpace(found))
		}
		if err != nil {
			return "", nil
		}
		if len(bytes.TrimSpace(line)) == 0 {
			rest, _ := lines.Peek(lines.Buffered())
			// Requests that name no member only measure how far it is.
			return cmp.Or(id, "nobody"), append(head, rest...)
		}
	}
}
