package h2_test

import (
	"strings"

	"golang.org/x/net/http2"
)

func headerViolations() []violationCase {
	return []violationCase{
		{name: "headers: of no stream", say: afterGreeting(func(p *peer) { p.headers(0, true, p.get("/")) }), want: protocol},
		{name: "headers: even", say: afterGreeting(func(p *peer) { p.headers(2, true, p.get("/")) }), want: protocol},
		{name: "headers: of an earlier stream", say: afterGreeting(func(p *peer) {
			p.headers(5, true, p.get("/"))
			p.headers(3, true, p.get("/"))
		}), want: protocol},
		{name: "headers: padding", say: withFrame(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, 1, "\x09ab"), want: malformed},
		{name: "headers: depends on itself", say: afterGreeting(func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.get("/"), EndHeaders: true, Priority: http2.PriorityParam{StreamDep: 1}})
		}), want: malformed},
		{name: "headers: compression", say: withFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xff\xff\xff\xff\xff\xff"), want: "goaway COMPRESSION_ERROR"},
		{name: "headers: table size", say: withFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x3f\xff\xff\x03"), want: "goaway COMPRESSION_ERROR"},
		{name: "headers: none", say: withRequest(), want: malformed},
		{name: "headers: upper case", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", "X-Upper", "x"), want: malformed},
		{name: "headers: value", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", "x", "a\nb"), want: malformed},
		{name: "headers: no method", say: withRequest(":scheme", "https", ":path", "/"), want: malformed},
		{name: "headers: no scheme", say: withRequest(":method", "GET", ":path", "/"), want: malformed},
		{name: "headers: another scheme", say: withRequest(":method", "GET", ":path", "/", ":scheme", "ftp"), want: malformed},
		{name: "headers: no path", say: withRequest(":method", "GET", ":scheme", "https"), want: malformed},
		{name: "headers: empty path", say: withRequest(":method", "GET", ":scheme", "https", ":path", ""), want: malformed},
		{name: "headers: bad path", say: withRequest(":method", "GET", ":scheme", "https", ":path", "no slash"), want: malformed},
		{name: "headers: path twice", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", ":path", "/"), want: malformed},
		{name: "headers: unknown pseudo field", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", ":x", "y"), want: malformed},
		{name: "headers: a response's", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", ":status", "200"), want: malformed},
		{name: "headers: pseudo field behind", say: withRequest(":method", "GET", ":scheme", "https", "x", "y", ":path", "/"), want: malformed},
		{name: "headers: protocol", say: withRequest(":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/", ":authority", "h"), want: malformed},
		{name: "headers: CONNECT", say: withRequest(":method", "CONNECT", ":authority", "h:443"), answer: 1, want: "200"},
		{name: "headers: CONNECT of nothing", say: withRequest(":method", "CONNECT"), want: malformed},
		{name: "headers: CONNECT of a Host", say: withRequest(":method", "CONNECT", "host", "h:443"), want: malformed},
		{name: "headers: CONNECT with a scheme", say: withRequest(":method", "CONNECT", ":scheme", "https", ":authority", "h:443"), want: malformed},
		{name: "headers: CONNECT with a path", say: withRequest(":method", "CONNECT", ":path", "/", ":authority", "h"), want: malformed},
		{name: "headers: user in authority", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", ":authority", "u@h"), want: malformed},
		{name: "headers: Connection", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", "connection", "close"), answer: 1, want: "400"},
		{name: "headers: Upgrade", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", "upgrade", "x"), answer: 1, want: "400"},
		{name: "headers: TE", say: withRequest(":method", "GET", ":scheme", "https", ":path", "/", "te", "gzip"), answer: 1, want: "400"},
		{name: "headers: too many", say: afterGreeting(func(p *peer) {
			p.headers(1, true, p.get("/", "x", strings.Repeat("a", 60<<10), "y", strings.Repeat("b", 10<<10)))
		}), answer: 1, want: "431"},
		{name: "headers: after malformed ones", say: afterGreeting(func(p *peer) {
			p.headers(1, true, p.fields(":method", "GET"))
			p.headers(3, true, p.get("/ok"))
		}), answer: 3, want: malformed + ", 200"},
		{name: "headers: body of malformed ones", say: afterGreeting(func(p *peer) {
			p.headers(1, false, p.get("/", "Bad", "x"))
			_ = p.WriteData(1, true, []byte("body"))
		}), want: malformed, goWant: unsteady},
		{name: "streams: too many", say: afterGreeting(func(p *peer) {
			for i := range uint32(101) {
				p.headers(1+2*i, true, p.get("/"))
			}
		}), want: "reset 201 PROTOCOL_ERROR"},
		{name: "streams: too many, settings unknown", say: func(p *peer) {
			_, _ = p.Conn.Write([]byte(http2.ClientPreface))
			_ = p.WriteSettings()
			for i := range uint32(101) {
				p.headers(1+2*i, true, p.get("/"))
			}
		}, want: "reset 201 REFUSED_STREAM"},
		{name: "trailers: stream goes on", say: onOpenStream(func(p *peer) { p.headers(1, false, p.fields("x", "y")) }), want: malformed},
		{name: "trailers: pseudo field", say: onOpenStream(func(p *peer) { p.headers(1, true, p.fields(":path", "/")) }), want: malformed},
		{name: "trailers: twice", say: onOpenStream(func(p *peer) {
			p.headers(1, true, p.fields("x", "y"))
			p.headers(1, true, p.fields("x", "y"))
		}), want: "reset 1 STREAM_CLOSED"},
		{name: "trailers: after the end", say: onOpenStream(func(p *peer) {
			_ = p.WriteData(1, true, nil)
			p.headers(1, true, p.fields("x", "y"))
		}), want: "reset 1 STREAM_CLOSED"},
		{name: "trailers: of a closed stream", say: onOpenStream(func(p *peer) {
			_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
			p.headers(1, true, p.fields("x", "y"))
		}), want: protocol},
	}
}

func dataViolations() []violationCase {
	return []violationCase{
		{name: "data: of no stream", say: withFrame(http2.FrameData, 0, 0, "x"), want: protocol},
		{name: "data: of an idle stream", say: withFrame(http2.FrameData, 0, 1, "x"), want: protocol},
		{name: "data: of an even stream", say: withFrame(http2.FrameData, 0, 2, "x"), want: protocol},
		{name: "data: after the end", say: onOpenStream(func(p *peer) {
			_ = p.WriteData(1, true, nil)
			_ = p.WriteData(1, false, []byte("x"))
		}), want: "reset 1 STREAM_CLOSED"},
		{name: "data: of a closed stream", say: onOpenStream(func(p *peer) {
			_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
			_ = p.WriteData(1, false, []byte("x"))
		}), want: "reset 1 STREAM_CLOSED"},
		{name: "data: padding", say: onOpenStream(func(p *peer) { p.raw(http2.FrameData, http2.FlagDataPadded, 1, "\x05abc") }), want: protocol},
		{name: "data: padded", say: afterGreeting(func(p *peer) {
			p.headers(1, false, p.get("/read"))
			_ = p.WriteDataPadded(1, true, []byte("x"), make([]byte, 200))
		}), answer: 1, want: "200"},
		{name: "data: beyond the stream's window", say: onOpenStream(func(p *peer) {
			_ = p.WriteData(1, false, make([]byte, 256<<10))
			_ = p.WriteData(1, false, make([]byte, 1))
		}), want: "reset 1 FLOW_CONTROL_ERROR"},
		{name: "data: more than declared", say: afterGreeting(func(p *peer) {
			p.headers(1, false, p.get("/", "content-length", "3"))
			_ = p.WriteData(1, false, []byte("four"))
		}), want: malformed},
		{name: "data: nothing, for ever", say: onOpenStream(func(p *peer) {
			for range 2000 {
				_ = p.WriteData(1, false, nil)
			}
		}), want: "goaway ENHANCE_YOUR_CALM", goWant: accepted},
	}
}
