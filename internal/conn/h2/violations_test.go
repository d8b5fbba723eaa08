package h2_test

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
)

// violationCase has frames that a client sends, and the reaction that the server must show.
type violationCase struct {
	name string
	say  func(p *peer)
	want string
	// goWant is the reaction of Go's server, if it differs from want.
	goWant string
	// answer is the stream whose response is awaited; 0 if there is none.
	answer uint32
}

// TestViolations sends frames that clients must not send, and some that they may, to our
// server and to Go's.
func TestViolations(t *testing.T) {
	theirs := serve(t, http.HandlerFunc(holdHandler), goServer)
	mine := serve(t, http.HandlerFunc(holdHandler), ours(h2.Config{}))
	for _, v := range violations() {
		t.Run(v.name, func(t *testing.T) {
			p := dial(t, mine.addr)
			v.say(p)
			if got := p.answerTo(v.answer); got != v.want {
				t.Errorf("got %q, want %q", got, v.want)
			}
			if v.goWant == unsteady {
				return
			}
			p = dial(t, theirs.addr)
			v.say(p)
			want := v.want
			if v.goWant != "" {
				want = strings.TrimPrefix(v.goWant, accepted)
			}
			if got := p.answerTo(v.answer); got != want {
				t.Errorf("Go's: got %q, want %q", got, want)
			}
		})
	}
}

// afterGreeting sends something after the preface and settings.
func afterGreeting(say func(p *peer)) func(*peer) {
	return func(p *peer) {
		p.greet()
		say(p)
	}
}

// onOpenStream sends something while stream 1 is open.
func onOpenStream(say func(p *peer)) func(*peer) {
	return afterGreeting(func(p *peer) {
		p.headers(1, false, p.get("/"))
		say(p)
	})
}

// withRequest opens stream 1 with a header block of its own.
func withRequest(pairs ...string) func(*peer) {
	return afterGreeting(func(p *peer) { p.headers(1, true, p.fields(pairs...)) })
}

func withSettings(list ...http2.Setting) func(*peer) {
	return afterGreeting(func(p *peer) { _ = p.WriteSettings(list...) })
}

func withFrame(kind http2.FrameType, flags http2.Flags, id uint32, payload string) func(*peer) {
	return afterGreeting(func(p *peer) { p.raw(kind, flags, id, payload) })
}

func violations() []violationCase {
	var all []violationCase
	for _, some := range [][]violationCase{connViolations(), frameViolations(), headerViolations(), dataViolations()} {
		all = append(all, some...)
	}
	return all
}

const (
	// accepted is the reaction of Go's server where it finds nothing wrong.
	accepted = "accepted"
	// unsteady is a reaction that is not always the same, and is not compared.
	unsteady  = "unsteady"
	protocol  = "goaway PROTOCOL_ERROR"
	frameSize = "goaway FRAME_SIZE_ERROR"
	malformed = "reset 1 PROTOCOL_ERROR"
)

func connViolations() []violationCase {
	return []violationCase{
		{name: "nothing wrong", say: afterGreeting(func(*peer) {})},
		{name: "preface", say: func(p *peer) { _, _ = p.Conn.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")) }, want: "closed"},
		{name: "no settings first", say: func(p *peer) {
			_, _ = p.Conn.Write([]byte(http2.ClientPreface))
			_ = p.WritePing(false, [8]byte{})
		}, want: protocol},
		{name: "settings: acknowledged with content", say: withFrame(http2.FrameSettings, http2.FlagSettingsAck, 0, "123456"), want: frameSize},
		{name: "settings: of a stream", say: withFrame(http2.FrameSettings, 0, 1, ""), want: protocol},
		{name: "settings: length", say: withFrame(http2.FrameSettings, 0, 0, "12345"), want: frameSize},
		{name: "settings: push", say: withSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2}), want: protocol},
		{name: "settings: window", say: withSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}), want: "goaway FLOW_CONTROL_ERROR"},
		{name: "settings: frame size", say: withSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 100}), want: protocol},
		{name: "settings: twice", say: withSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 14}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15}), want: protocol},
		{name: "settings: unknown", say: withSettings(http2.Setting{ID: 0xff, Val: 1})},
		{name: "settings: acknowledged twice", say: afterGreeting(func(p *peer) { _ = p.WriteSettingsAck() }), want: protocol},
		{name: "settings: window of a stream overflows", say: onOpenStream(func(p *peer) {
			_ = p.WriteWindowUpdate(1, 1<<31-1-65535)
			_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65536})
		}), want: "goaway FLOW_CONTROL_ERROR"},
		{name: "ping: of a stream", say: withFrame(http2.FramePing, 0, 1, "12345678"), want: protocol},
		{name: "ping: length", say: withFrame(http2.FramePing, 0, 0, "1234567"), want: frameSize},
		{name: "ping: acknowledged", say: withFrame(http2.FramePing, http2.FlagPingAck, 0, "12345678")},
		{name: "goaway: of a stream", say: withFrame(http2.FrameGoAway, 0, 1, "12345678"), want: protocol},
		{name: "goaway: length", say: withFrame(http2.FrameGoAway, 0, 0, "1234"), want: frameSize},
		{name: "goaway", say: onOpenStream(func(p *peer) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil) }), want: "goaway NO_ERROR"},
		{name: "goaway: another stream is ignored", say: onOpenStream(func(p *peer) {
			_ = p.WriteGoAway(0, http2.ErrCodeNo, nil)
			p.headers(3, false, p.get("/"))
			_ = p.WriteData(3, true, []byte("x"))
		}), want: "goaway NO_ERROR"},
		{name: "window: nothing", say: afterGreeting(func(p *peer) { _ = p.WriteWindowUpdate(0, 0) }), want: protocol},
		{name: "window: nothing, of a stream", say: onOpenStream(func(p *peer) { _ = p.WriteWindowUpdate(1, 0) }), want: malformed},
		{name: "window: too large", say: afterGreeting(func(p *peer) { _ = p.WriteWindowUpdate(0, 1<<31-1) }), want: "goaway FLOW_CONTROL_ERROR"},
		{name: "window: too large, of a stream", say: onOpenStream(func(p *peer) { _ = p.WriteWindowUpdate(1, 1<<31-1) }), want: "reset 1 FLOW_CONTROL_ERROR"},
		{name: "window: of an idle stream", say: afterGreeting(func(p *peer) { _ = p.WriteWindowUpdate(1, 1) }), want: protocol},
		{name: "window: length", say: withFrame(http2.FrameWindowUpdate, 0, 0, "123"), want: frameSize},
		{name: "window: of a closed stream", say: onOpenStream(func(p *peer) {
			_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
			_ = p.WriteWindowUpdate(1, 1)
		})},
	}
}

func frameViolations() []violationCase {
	return []violationCase{
		{name: "reset: of no stream", say: withFrame(http2.FrameRSTStream, 0, 0, "1234"), want: protocol},
		{name: "reset: of an idle stream", say: withFrame(http2.FrameRSTStream, 0, 1, "1234"), want: protocol},
		{name: "reset: length", say: onOpenStream(func(p *peer) { p.raw(http2.FrameRSTStream, 0, 1, "123") }), want: frameSize},
		{name: "reset: twice", say: onOpenStream(func(p *peer) {
			_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
			_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
		})},
		{name: "priority", say: afterGreeting(func(p *peer) { _ = p.WritePriority(1, http2.PriorityParam{StreamDep: 3}) })},
		{name: "priority: of no stream", say: withFrame(http2.FramePriority, 0, 0, "12345"), want: protocol},
		{name: "priority: length", say: withFrame(http2.FramePriority, 0, 1, "1234"), want: frameSize},
		{name: "priority: over itself", say: onOpenStream(func(p *peer) { _ = p.WritePriority(1, http2.PriorityParam{StreamDep: 1}) }), want: malformed},
		{name: "push", say: onOpenStream(func(p *peer) {
			_ = p.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: p.get("/"), EndHeaders: true})
		}), want: protocol},
		{name: "unknown", say: withFrame(0xee, 0xff, 0, "anything")},
		{name: "unknown, of a stream", say: withFrame(0xee, 0xff, 77, "anything")},
		{name: "too large", say: afterGreeting(func(p *peer) { p.raw(http2.FrameData, 0, 1, strings.Repeat("x", 256<<10+1)) }), want: frameSize},
		{name: "continuation: of nothing", say: afterGreeting(func(p *peer) { _ = p.WriteContinuation(1, true, p.get("/")) }), want: protocol},
		{name: "continuation: of another stream", say: afterGreeting(func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.get("/")})
			_ = p.WriteContinuation(3, true, nil)
		}), want: protocol},
		{name: "continuation: something between", say: afterGreeting(func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.get("/")})
			_ = p.WritePing(false, [8]byte{})
		}), want: protocol},
		{name: "continuation: flood", say: afterGreeting(func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.get("/")})
			for range 20 {
				_ = p.WriteContinuation(1, false, p.fields("x-large", strings.Repeat("~", 16000)))
			}
		}), want: protocol},
		{name: "continuation", say: afterGreeting(func(p *peer) {
			block := p.get("/ok")
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:3], EndStream: true})
			_ = p.WriteContinuation(1, false, block[3:5])
			_ = p.WriteContinuation(1, false, nil)
			_ = p.WriteContinuation(1, true, block[5:])
		}), answer: 1, want: "200"},
	}
}
