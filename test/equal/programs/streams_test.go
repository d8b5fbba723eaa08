package programs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// streams tests what goes on for long: forwarded ports, kubectl proxy and logs.
func (c *cluster) streams(t *testing.T) {
	parts := []struct {
		name     string
		inLong   bool
		test     func(s *side, t *testing.T)
		oneByOne bool // all sides share a count
	}{
		{name: "port-forward over a WebSocket", test: func(s *side, t *testing.T) { s.forwards(t, true) }},
		{name: "port-forward over SPDY", inLong: true, test: func(s *side, t *testing.T) { s.forwards(t, false) }},
		{name: "slow reader", inLong: true, oneByOne: true, test: (*side).readsSlowly},
		{name: "exec", inLong: true, test: (*side).pipes},
		{name: "proxy", test: (*side).proxies},
		{name: "watch over a WebSocket", test: (*side).watchesOverWebSocket},
		{name: "logs without a reader", test: (*side).stopsFollowing},
	}
	for _, part := range parts {
		if part.inLong && !long() {
			continue
		}
		t.Run(part.name, func(t *testing.T) {
			for _, s := range c.sides {
				t.Run(s.what, func(t *testing.T) {
					if !part.oneByOne {
						t.Parallel()
					}
					part.test(s, t)
				})
			}
		})
	}
	eventually(t, "no log is followed", func() error { return wantZero("followers", c.kubelet.followers.Load()) })
	t.Run("paths", c.comparePaths)
}

func wantZero(what string, n int64) error {
	if n != 0 {
		return fmt.Errorf("%d %s", n, what)
	}
	return nil
}

// listensAt finds the port on which kubectl listens in what it prints.
var listensAt = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)

// listen starts a kubectl that listens on a port, and returns its address and a function
// that ends it.
func (s *side) listen(t *testing.T, env []string, args ...string) (address string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.command(ctx, s.bin+"/kubectl", args...)
	cmd.Env = append(cmd.Env, env...)
	out := must(cmd.StdoutPipe())(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	stop = func() { cancel(); _ = cmd.Wait() }
	t.Cleanup(stop)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := listensAt.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return "127.0.0.1:" + found[1], stop
		}
	}
	stop()
	t.Fatalf("kubectl %s does not listen: %s", strings.Join(args, " "), &stderr)
	return "", nil
}

// forward starts kubectl port-forward to a port of a pod.
func (s *side) forward(t *testing.T, webSocket bool, port int) (address string, stop func()) {
	t.Helper()
	return s.listen(t, []string{"KUBECTL_PORT_FORWARD_WEBSOCKETS=" + strconv.FormatBool(webSocket)},
		"port-forward", "deployment/web", fmt.Sprint(":", port), "--address=127.0.0.1")
}

// streamed is how many bytes go through a stream there and back.
const streamed = 4 << 20

// forwards sends requests and bytes to ports of a pod.
func (s *side) forwards(t *testing.T, webSocket bool) {
	address, stop := s.forward(t, webSocket, webPort)
	for i := range 3 {
		path := fmt.Sprint("/", i)
		if got, want := getText(t, "http://"+address+path), path+" of "+s.name+"\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	stop()
	address, stop = s.forward(t, webSocket, echoPort)
	defer stop()
	conn := must(net.Dial("tcp", address))(t).(*net.TCPConn)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(patience)))
	sent := make([]byte, streamed)
	_, _ = rand.Read(sent)
	// A line first: it must come back before more is sent.
	_, err := conn.Write(sent[:10])
	check(t, err)
	got := make([]byte, streamed)
	_, err = io.ReadFull(conn, got[:10])
	check(t, err)
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent[10:])
		wrote <- errors.Join(err, conn.CloseWrite())
	}()
	_, err = io.ReadFull(conn, got[10:])
	check(t, errors.Join(err, <-wrote))
	if !bytes.Equal(got, sent) {
		t.Error("other bytes came back than were sent")
	}
}

// unread bounds what may be on its way to a reader that reads nothing: buffers of sockets,
// windows of streams, and those of kubectl and of the servers.
const unread = 64 << 20

// readsSlowly forwards the endless port to a reader that stops. The writer has to stop as
// well, go on when the reader does, and end when the reader has gone.
func (s *side) readsSlowly(t *testing.T) {
	for _, webSocket := range []bool{true, false} {
		address, stop := s.forward(t, webSocket, endlessPort)
		conn := must(net.Dial("tcp", address))(t)
		check(t, conn.SetDeadline(time.Now().Add(patience)))
		before := s.kubelet.endless.Load()
		_, err := io.CopyN(io.Discard, conn, 1<<20)
		check(t, err)
		last, still := int64(0), 0
		eventually(t, "the writer waits", func() error {
			now := s.kubelet.endless.Load() - before
			if still++; now != last {
				last, still = now, 0
			}
			if still < 8 {
				return fmt.Errorf("%w: %d bytes", harness.ErrNotYet, now)
			}
			return nil
		})
		if last > unread {
			t.Errorf("%d bytes were sent to a reader that has stopped", last)
		}
		t.Logf("WebSocket %v: %d KiB were on their way to a reader that has stopped", webSocket, (last-1<<20)>>10)
		_, err = io.CopyN(io.Discard, conn, last)
		check(t, err)
		check(t, conn.Close())
		stop()
		eventually(t, "the writer ends", func() error { return wantZero("forwarders", s.kubelet.forwarders.Load()) })
	}
}

// pipes sends bytes through a command and back, over both protocols.
func (s *side) pipes(t *testing.T) {
	for _, webSockets := range []string{"true", "false"} {
		got := s.run(t.Context(), "export KUBECTL_REMOTE_COMMAND_WEBSOCKETS="+webSockets+`
head -c 4194304 /dev/urandom > sent
kubectl exec -i deployment/web -c main -- cat < sent > returned && cmp sent returned && wc -c < returned`)
		if got.status != 0 || strings.TrimSpace(got.stdout) != strconv.Itoa(streamed) {
			t.Errorf("WebSockets %s: %+v", webSockets, got)
		}
	}
}

// proxiedPaths are paths of programs behind the upstream. POD is the name of a pod.
var proxiedPaths = []string{
	"/api/v1/namespaces/SIDE/services/web:http/proxy",
	"/api/v1/namespaces/SIDE/services/web:http/proxy/a%2Fb//c/?d=e%20f&&g;h",
	"/api/v1/namespaces/SIDE/services/web:http/proxy/redirect",
	"/api/v1/namespaces/SIDE/services/web:http/proxy/page",
	"/api/v1/namespaces/SIDE/services/none:http/proxy/",
	"/api/v1/namespaces/SIDE/pods/POD:WEBPORT/proxy/x",
	"/api/v1/nodes/node-1.SIDE/proxy/healthz",
	"/api/v1/nodes/node-1.SIDE/proxy/none",
	"/api/v1/namespaces/SIDE/pods/POD/log?container=main&tailLines=1",
	"/api/v1/namespaces/SIDE/pods/POD/exec?command=true&container=main&stdout=true",
	"/api/v1/namespaces/SIDE/pods/POD/portforward",
}

// comparePaths compares what programs behind the upstream answer, with headers.
func (c *cluster) comparePaths(t *testing.T) {
	pods := map[*side]string{}
	for _, s := range c.sides {
		pods[s] = s.run(t.Context(), "kubectl get pods -l app=web -o jsonpath='{.items[0].metadata.name}'").stdout
	}
	for _, path := range proxiedPaths {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			got := onEachSide(c, func(s *side) string { return s.proxied(t, method, strings.ReplaceAll(path, "POD", pods[s])) })
			for i, s := range c.sides {
				if got[i] != got[0] {
					t.Errorf("%s %s: %s differs from straight:\n%s", method, path, s.what, difference(got[0], got[i]))
				}
			}
		}
	}
}

// proxied sends a request, and returns status, headers and body as text.
func (s *side) proxied(t *testing.T, method, path string) string {
	client := s.HTTPClient()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+s.expand(path), nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	for name := range resp.Header {
		if harness.IsVolatileHeader(name) {
			delete(resp.Header, name)
		}
	}
	return s.normalText(fmt.Sprintf("%s\n%v\n%d\n%s\n%v", resp.Status, resp.Header, resp.ContentLength, body, err), false)
}

// proxies reads through kubectl proxy, from the server and from a service behind it, and
// watches.
func (s *side) proxies(t *testing.T) {
	address, stop := s.listen(t, nil, "proxy", "--port=0")
	defer stop()
	base := "http://" + address + "/api/v1/namespaces/" + s.name
	for path, want := range map[string]string{
		base + "/configmaps/settings":           `"name":"settings"`,
		base + "/services/web:http/proxy/x?y=z": "GET /x?y=z",
	} {
		eventually(t, path, func() error {
			if got := getText(t, path); !strings.Contains(strings.ReplaceAll(got, ": ", ":"), want) {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return nil
		})
	}
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/configmaps?watch=true&fieldSelector=metadata.name%3Dproxied", nil))(t)
	resp := must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	if got := s.run(t.Context(), "kubectl create configmap proxied && kubectl delete configmap proxied"); got.status != 0 {
		t.Errorf("%+v", got)
	}
	events := bufio.NewScanner(resp.Body)
	events.Buffer(nil, 1<<20)
	for _, want := range []string{`"type":"ADDED"`, `"type":"DELETED"`} {
		if !events.Scan() || !strings.Contains(events.Text(), want) {
			t.Errorf("got %q, %v, want %s", events.Text(), events.Err(), want)
		}
	}
}

// watchesOverWebSocket watches as programs in browsers do: over a WebSocket, with a
// certificate, and with a token in the place of a protocol's name.
func (s *side) watchesOverWebSocket(t *testing.T) {
	made := s.run(t.Context(), "kubectl apply -f agent.yaml >/dev/null && kubectl create token agent")
	if made.status != 0 {
		t.Fatalf("%+v", made)
	}
	token := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(strings.TrimSpace(made.stdout)))
	for _, protocols := range [][]string{nil, {token, "base64.binary.k8s.io"}} {
		user := s.Config()
		if protocols != nil {
			user = rest.AnonymousClientConfig(user)
		}
		cfg := must(websocket.NewConfig("wss"+strings.TrimPrefix(s.URL, "https")+"/api/v1/namespaces/"+s.name+"/configmaps?watch=true&fieldSelector=metadata.name%3Dsocket", s.URL))(t)
		cfg.TlsConfig, cfg.Protocol = must(rest.TLSConfigFor(user))(t), protocols
		cfg.TlsConfig.NextProtos = []string{"http/1.1"}
		var conn *websocket.Conn
		eventually(t, "a WebSocket", func() (err error) { // the rights are new
			conn, err = websocket.DialConfig(cfg)
			return err
		})
		check(t, conn.SetDeadline(time.Now().Add(patience)))
		if got := s.run(t.Context(), "kubectl create configmap socket && kubectl delete configmap socket"); got.status != 0 {
			t.Errorf("%+v", got)
		}
		for _, want := range []string{`{"type":"ADDED"`, `{"type":"DELETED"`} {
			var frame string
			err := websocket.Message.Receive(conn, &frame)
			if decoded, fails := base64.StdEncoding.DecodeString(frame); fails == nil {
				frame = string(decoded)
			}
			if err != nil || !strings.HasPrefix(frame, want) {
				t.Errorf("got %.100q, %v, want %s", frame, err, want)
			}
		}
		check(t, conn.Close())
	}
}

// stopsFollowing ends a kubectl that follows a log without an end.
func (s *side) stopsFollowing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := s.command(ctx, s.bin+"/kubectl", "logs", "--follow", "deployment/web", "--container=talkative")
	out := must(cmd.StdoutPipe())(t)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for i := range 10 {
		if want := fmt.Sprint("talkative line ", i+1); !lines.Scan() || lines.Text() != want {
			t.Errorf("got %q, %v, want %q", lines.Text(), lines.Err(), want)
		}
	}
	cancel()
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Errorf("kubectl ended with %v", err)
	}
}

func getText(t *testing.T, url string) string {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	resp := must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	return string(must(io.ReadAll(resp.Body))(t))
}
