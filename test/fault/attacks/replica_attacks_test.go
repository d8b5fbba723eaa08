package attacks

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/net/http2"
)

// secretsPath leads to what nobody but the administrator may read.
const secretsPath = "/api/v1/namespaces/" + namespace + "/secrets"

// replicaAttacks are against a server that asks another one who its clients are and what they
// may do, and passes requests on to it over connections that these share.
func replicaAttacks() []attackKind {
	return []attackKind{
		{name: "strangers ask for the version", path: "/version", run: http2Attack(100, connOptions{}, nil, frames(20, func(p *peer) { p.get("") }))},
		{name: "random tokens", path: secretsPath, run: http2Attack(100, connOptions{}, nil, frames(10, func(p *peer) {
			p.get("", "authorization", "Bearer "+randomText())
		}))},
		{name: "bad tokens among good ones", path: listPath + "/object-0", run: http2Attack(100, connOptions{}, nil, badAmongGood)},
		{name: "random names", path: secretsPath + "/", token: curiousToken, run: http2Attack(100, connOptions{}, nil, frames(10, func(p *peer) {
			p.get(p.Path + randomText())
		}))},
		{name: "paths that are not clean", path: listPath, token: attackerToken, run: http2Attack(100, connOptions{}, nil, func(p *peer) error {
			for path := range slices.Values(uncleanPaths()) {
				p.get(path)
			}
			return nil
		})},
		{name: "Expect: 100-continue", path: listPath, token: attackerToken, run: expectContinue},
		{name: "bodies that never end", path: listPath, run: http2Attack(10, connOptions{}, nil, frames(20, func(p *peer) {
			p.headers(p.fields("POST", p.Path, "content-type", "application/json"), 0)
		}))},
		{name: "strangers hold connections", path: "/version", run: holdConnections},
	}
}

func randomText() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

// badAmongGood sends requests with a good token and with tokens that were never good, or no
// longer are, over one connection.
func badAmongGood(p *peer) error {
	for i := range 5 {
		p.get("", "authorization", "Bearer "+attackerToken)
		p.get("", "authorization", fmt.Sprintf("Bearer bad-%d", i))
	}
	return nil
}

// uncleanPaths lead to something else when they are cleaned.
func uncleanPaths() []string {
	var all []string
	for _, from := range []string{"/openapi/v3", "/apis", "/version", listPath} {
		up := strings.Repeat("/..", strings.Count(from, "/"))
		for _, detour := range []string{up, strings.ReplaceAll(up, "..", "%2e%2e"), "/." + up, "//x/.." + up} {
			all = append(all, from+detour+secretsPath)
		}
	}
	return append(all, "//"+secretsPath, "/."+secretsPath, strings.ReplaceAll(secretsPath, "/", "//"))
}

// expectContinue writes over HTTP/1.1, waits for the interim answer or a final one, and sends
// a body that the server refuses.
func expectContinue(ctx context.Context, s *slot) error {
	c, err := s.open(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	const body = `{"metadata":{"name":"X_Y"}}`
	answer := make([]byte, 16<<10)
	for s.pace(ctx, 500) {
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", s.Path, s.Token, len(body))
		for _, part := range []string{head, body} {
			n, err := io.WriteString(c, part)
			s.stats.Bytes.Add(int64(n))
			if err != nil {
				return err
			}
			if _, err := c.Read(answer); err != nil {
				return err
			}
		}
		s.stats.Requests.Add(1)
	}
	return nil
}

// holdConnections opens one connection after the other, with a request on each whose answer
// it does not take, and keeps a thousand.
func holdConnections(ctx context.Context, s *slot) error {
	var held []*peer
	defer func() {
		for _, p := range held {
			p.close()
		}
	}()
	for s.pace(ctx, 50) {
		if len(held) >= maxHalfOpen/s.Conns {
			held[0].close()
			held = held[1:]
		}
		p, err := s.dial(ctx, connOptions{settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, unread: true})
		if err != nil {
			return err
		}
		p.get("")
		if err := p.flush(); err != nil {
			return err
		}
		held = append(held, p)
	}
	return nil
}
