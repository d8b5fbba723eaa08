package h2_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

var (
	size4K  = strings.Repeat("a", 4096)
	size5K  = strings.Repeat("b", 5000)
	size40K = strings.Repeat("0123456789", 4000)
	size1M  = strings.Repeat("0123456789abcdef", 1<<16)
)

// Short names for the many handlers below.
type (
	rw  = http.ResponseWriter
	rq  = *http.Request
	srv = *http.Server
)

// writeHandler writes parts and notes the results.
func writeHandler(parts ...string) func(rw, rq, *noteBook) {
	return func(w rw, _ rq, n *noteBook) {
		for _, part := range parts {
			got, err := io.WriteString(w, part)
			n.add("wrote %d %s", got, errorKind(err))
		}
	}
}

// headerHandler sets header fields and, unless it is 0, the status, then calls a handler.
func headerHandler(status int, then func(rw, rq, *noteBook), pairs ...string) func(rw, rq, *noteBook) {
	return func(w rw, r rq, n *noteBook) {
		for i := 0; i < len(pairs); i += 2 {
			w.Header()[pairs[i]] = append(w.Header()[pairs[i]], pairs[i+1])
		}
		if status != 0 {
			w.WriteHeader(status)
		}
		then(w, r, n)
	}
}

// emptyHandler does nothing.
func emptyHandler(rw, rq, *noteBook) {}

func behaviourCases() []behaviourCase { return append(responseCases(), requestCases()...) }

func responseCases() []behaviourCase {
	return []behaviourCase{
		{name: "nothing", handler: emptyHandler},
		{name: "status alone", handler: headerHandler(418, emptyHandler)},
		{name: "small", handler: writeHandler("hello")},
		{name: "two writes", handler: writeHandler("hello ", "world")},
		{name: "empty write", handler: writeHandler("")},
		{name: "4 KiB", handler: writeHandler(size4K)},
		{name: "more than 4 KiB", handler: writeHandler(size5K)},
		{name: "more than 4 KiB in two", handler: writeHandler("x", size5K)},
		{name: "40 KB", handler: writeHandler(size40K)},
		{name: "1 MiB", handler: writeHandler(size1M)},
		{name: "small then 1 MiB", handler: writeHandler("x", size1M, "y")},
		{name: "html is sniffed", handler: writeHandler("<html><body>")},
		{name: "binary is sniffed", handler: writeHandler("\x00\x01\x02\xff")},
		{name: "gzip is not sniffed", handler: headerHandler(0, writeHandler("\x1f\x8b\x08"), "Content-Encoding", "gzip")},
		{name: "type is the handler's", handler: headerHandler(0, writeHandler("{}"), "Content-Type", "application/json")},
		{name: "type suppressed", handler: func(w rw, _ rq, _ *noteBook) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "x")
		}},
		{name: "date is the handler's", handler: headerHandler(0, emptyHandler, "Date", "yesterday")},
		{name: "date suppressed", handler: func(w rw, _ rq, _ *noteBook) { w.Header()["Date"] = nil }},
		{name: "many values", handler: headerHandler(201, emptyHandler, "X-A", "1", "X-A", "2", "x-lower", "3", "Set-Cookie", "a=b", "Set-Cookie", "c=d")},
		{name: "bad header value", handler: headerHandler(0, emptyHandler, "X-Bad", "a\nb", "X-Good", "c")},
		{name: "bad header name", handler: headerHandler(0, emptyHandler, "X Bad", "a", "Größe", "b", "X-Good", "c")},
		{name: "chunked", handler: headerHandler(200, writeHandler("x"), "Transfer-Encoding", "chunked")},
		{name: "header after WriteHeader", handler: func(w rw, _ rq, _ *noteBook) {
			w.Header().Set("X-A", "before")
			w.WriteHeader(202)
			w.Header().Set("X-A", "after")
		}},
		{name: "WriteHeader twice", handler: func(w rw, _ rq, _ *noteBook) { w.WriteHeader(202); w.WriteHeader(500) }},
		{name: "bad status", handler: func(w rw, _ rq, n *noteBook) {
			defer func() { n.add("%v", recover()); w.WriteHeader(200) }()
			w.WriteHeader(99)
		}},
		{name: "declared length", handler: headerHandler(0, writeHandler("hello"), "Content-Length", "5")},
		{name: "declared length, large", handler: headerHandler(0, writeHandler(size40K), "Content-Length", "40000")},
		{name: "declared length, too short", handler: headerHandler(0, writeHandler("hello"), "Content-Length", "10")},
		{name: "declared length, nonsense", handler: headerHandler(0, writeHandler("hello"), "Content-Length", "five")},
		{name: "204", handler: headerHandler(204, writeHandler("x"))},
		{name: "304", handler: headerHandler(304, writeHandler("x"), "Etag", `"a"`)},
		{name: "HEAD small", method: "HEAD", handler: writeHandler("hello")},
		{name: "HEAD nothing", method: "HEAD", handler: emptyHandler},
		{name: "HEAD large", method: "HEAD", handler: func(w rw, _ rq, _ *noteBook) { _, _ = io.WriteString(w, size40K); flush(w) }},
		{name: "HEAD declared", method: "HEAD", handler: headerHandler(0, emptyHandler, "Content-Length", "77")},
		{name: "HEAD flushed", method: "HEAD", handler: func(w rw, _ rq, _ *noteBook) { _, _ = io.WriteString(w, "abc"); flush(w) }},
		{name: "flush before all", handler: func(w rw, _ rq, _ *noteBook) { flush(w); _, _ = io.WriteString(w, "late") }},
		{name: "flush between", handler: func(w rw, _ rq, _ *noteBook) {
			for i := range 50 {
				fmt.Fprintf(w, "%d,", i)
				flush(w)
			}
		}},
		{name: "informed", handler: func(w rw, _ rq, _ *noteBook) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(103)
			w.Header().Set("X-Final", "yes")
			_, _ = io.WriteString(w, "final")
		}},
		{name: "102 and 103", handler: func(w rw, _ rq, _ *noteBook) { w.WriteHeader(102); w.WriteHeader(103); w.WriteHeader(204) }},
		{name: "trailers announced", handler: headerHandler(0, func(w rw, _ rq, _ *noteBook) {
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Sum", "42")
			w.Header().Set("X-Other", "no")
		}, "Trailer", "X-Sum, x-unset")},
		{name: "trailers announced, none set", handler: headerHandler(0, writeHandler("body"), "Trailer", "X-Sum")},
		{name: "trailers without body", handler: headerHandler(0, func(w rw, _ rq, _ *noteBook) { flush(w); w.Header().Set("X-Sum", "0") }, "Trailer", "X-Sum")},
		{name: "trailers by prefix", handler: func(w rw, _ rq, _ *noteBook) {
			_, _ = io.WriteString(w, size40K)
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		}},
		{name: "trailers by prefix, nothing else", handler: headerHandler(0, emptyHandler, http.TrailerPrefix+"Grpc-Status", "0")},
		{name: "trailer that is none", handler: headerHandler(0, writeHandler("x"), "Trailer", "Content-Length")},
		{name: "abort", handler: func(rw, rq, *noteBook) { panic(http.ErrAbortHandler) }},
		{name: "abort after flush", handler: func(w rw, _ rq, _ *noteBook) {
			_, _ = io.WriteString(w, "half")
			flush(w)
			panic(http.ErrAbortHandler)
		}},
		{name: "panic", handler: func(rw, rq, *noteBook) { panic("oh") }},
		{name: "panic with unsent bytes", handler: func(w rw, _ rq, _ *noteBook) { _, _ = io.WriteString(w, "x"); panic("oh") }},
		{name: "Connection: close", handler: headerHandler(0, writeHandler("bye"), "Connection", "close")},
		{name: "write deadline in the past", handler: func(w rw, _ rq, n *noteBook) {
			err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second))
			_, _ = io.WriteString(w, "x")
			n.add("%v %v", err, http.NewResponseController(w).Flush() != nil)
		}},
		{name: "write deadline that passes", handler: func(w rw, r rq, n *noteBook) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			<-r.Context().Done()
			_, err := w.Write(make([]byte, 64<<10))
			n.add("%v", errors.Is(err, os.ErrDeadlineExceeded))
		}},
		{name: "write timeout of the server", server: func(s srv) { s.WriteTimeout = 500 * time.Millisecond }, handler: func(_ rw, r rq, n *noteBook) {
			<-r.Context().Done()
			n.add("%v", r.Context().Err())
		}},
		{name: "full duplex", handler: func(w rw, _ rq, n *noteBook) { n.add("%v", http.NewResponseController(w).EnableFullDuplex()) }},
		{name: "hijack", handler: func(w rw, _ rq, n *noteBook) {
			_, _, err := http.NewResponseController(w).Hijack()
			n.add("%v", errors.Is(err, http.ErrNotSupported))
		}},
		{name: "close notifier", handler: func(w rw, _ rq, n *noteBook) {
			gone := w.(interface{ CloseNotify() <-chan bool }).CloseNotify()
			select {
			case <-gone:
				n.add("gone")
			default:
				n.add("there")
			}
		}},
	}
}

func requestCases() []behaviourCase {
	seen := func(_ rw, r rq, n *noteBook) {
		_, local := r.Context().Value(http.LocalAddrContextKey).(interface{ Network() string })
		_, server := r.Context().Value(http.ServerContextKey).(srv)
		n.add("%s %s %q %s %d.%d length=%d tls=%v host=%v addr=%v %v %v", r.Method, r.URL, r.RequestURI, r.Proto, r.ProtoMajor,
			r.ProtoMinor, r.ContentLength, r.TLS != nil && r.TLS.NegotiatedProtocol == "h2", r.Host != "", r.RemoteAddr != "", local, server)
		r.Header.Del("User-Agent")
		n.add("%s trailer=%s encoding=%v close=%v", headerLine(r.Header), headerLine(r.Trailer), r.TransferEncoding, r.Close)
	}
	reads := func(_ rw, r rq, n *noteBook) { readAll(r, n) }
	return []behaviourCase{
		{name: "request", path: "/a%20b/c?d=e&f", handler: seen},
		{name: "request: OPTIONS", method: "OPTIONS", path: "/", handler: seen},
		{name: "request: headers", edit: setHeaders("X-A", "1", "X-A", "2", "Accept", "*/*"), handler: seen},
		{name: "request: cookies", edit: setHeaders("Cookie", "a=b; c=d; e=f"), handler: seen},
		{name: "request: host", edit: func(r rq) { r.Host = "example.com" }, handler: seen},
		{name: "request: TE", edit: setHeaders("Te", "trailers"), handler: seen},
		{name: "request: TE of another kind", edit: setHeaders("Te", "gzip"), refused: true, handler: seen},
		{name: "POST", method: "POST", body: textBody("content"), handler: reads},
		{name: "POST without length", method: "POST", body: unsizedBody("content"), handler: reads},
		{name: "POST empty", method: "POST", body: textBody(""), handler: reads},
		{name: "POST large", method: "POST", body: textBody(size1M), handler: reads},
		{name: "POST echo", method: "POST", body: unsizedBody(size1M), handler: func(w rw, r rq, _ *noteBook) { _, _ = io.Copy(w, r.Body) }},
		{name: "POST unread", method: "POST", body: textBody("content"), handler: writeHandler("ignored")},
		{name: "POST body closed", method: "POST", body: textBody("content"), handler: func(_ rw, r rq, n *noteBook) {
			_ = r.Body.Close()
			_, err := r.Body.Read(make([]byte, 1))
			n.add("%v", err != nil)
		}},
		{name: "POST read after its end", method: "POST", body: textBody("content"), handler: func(_ rw, r rq, n *noteBook) {
			readAll(r, n)
			_, err := r.Body.Read(make([]byte, 1))
			n.add("%v", err)
		}},
		{name: "GET body", handler: reads},
		{name: "MaxBytesReader", method: "POST", body: textBody(size1M), handler: func(w rw, r rq, n *noteBook) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1000))
			var tooLarge *http.MaxBytesError
			n.add("%v", errors.As(err, &tooLarge))
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}},
		{name: "continue", method: "POST", body: textBody("content"), edit: setHeaders("Expect", "100-continue"), handler: func(_ rw, r rq, n *noteBook) {
			n.add("%q", r.Header["Expect"])
			readAll(r, n)
		}},
		{name: "continue refused", method: "POST", body: textBody("content"), edit: setHeaders("Expect", "100-continue"), handler: headerHandler(417, emptyHandler)},
		{name: "trailers of a request", method: "POST", body: unsizedBody("content"), edit: func(r rq) {
			r.Trailer = http.Header{"X-Sum": {"7"}, "X-None": nil}
		}, handler: func(_ rw, r rq, n *noteBook) {
			n.add("%s", headerLine(r.Trailer))
			readAll(r, n)
		}},
		{name: "form", method: "POST", body: textBody("a=1&b=2"), edit: setHeaders("Content-Type", "application/x-www-form-urlencoded"), handler: func(_ rw, r rq, n *noteBook) {
			n.add("%v %v", r.ParseForm(), r.PostForm)
		}},
		{name: "read deadline in the past", method: "POST", body: textBody("content"), handler: func(w rw, r rq, n *noteBook) {
			n.add("%v", http.NewResponseController(w).SetReadDeadline(time.Now().Add(-time.Second)))
			_, err := io.ReadAll(r.Body)
			n.add("%v", err == nil || errors.Is(err, os.ErrDeadlineExceeded))
		}},
		{name: "read timeout of the server", method: "POST", body: func() io.Reader { r, _ := io.Pipe(); return r },
			server: func(s srv) { s.ReadTimeout = 500 * time.Millisecond }, handler: func(_ rw, r rq, n *noteBook) {
				_, err := io.ReadAll(r.Body)
				n.add("%v", errors.Is(err, os.ErrDeadlineExceeded))
			}},
		{name: "context after the handler", handler: func(_ rw, r rq, n *noteBook) { n.add("%v", r.Context().Err()) }},
	}
}
