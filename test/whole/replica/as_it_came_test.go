package replica

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// hostAddress returns an IPv4 address of this machine. Kubernetes proxies to no loopback address.
func hostAddress(t *testing.T) string {
	t.Helper()
	for _, a := range must(net.InterfaceAddrs())(t) {
		if found, ok := a.(*net.IPNet); ok && found.IP.To4() != nil && !found.IP.IsLoopback() {
			return found.IP.String()
		}
	}
	t.Skip("the machine has no IPv4 address but the loopback one")
	return ""
}

// startEcho starts a program that answers each request with the lines of its head, and returns
// its address.
func startEcho(t *testing.T) net.Addr {
	t.Helper()
	listener := must(net.Listen("tcp", net.JoinHostPort(hostAddress(t), "0")))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var head bytes.Buffer
				lines := bufio.NewReader(conn)
				for {
					line, err := lines.ReadString('\n')
					if err != nil || line == "\r\n" {
						break
					}
					head.WriteString(line)
				}
				answer := fmt.Sprintf("200 OK\r\nContent-Length: %d\r\nConnection: close", head.Len())
				if _, after, upgrades := strings.Cut(head.String(), "\nUpgrade: "); upgrades {
					protocol, _, _ := strings.Cut(after, "\r\n")
					answer = "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol
				}
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n%s", answer, &head)
			}()
		}
	}()
	return listener.Addr()
}

// sendRaw sends the text of a request over HTTP/1.1, and returns its answer.
func sendRaw(t *testing.T, config *rest.Config, text string) (*http.Response, string) {
	t.Helper()
	settings := must(rest.TLSConfigFor(config))(t)
	settings.NextProtos = []string{"http/1.1"}
	conn := must(tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), settings))(t)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(waitTimeout)); err != nil {
		t.Fatal(err)
	}
	must(io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")+"\r\n\r\n"))(t)
	answer := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatalf("%v for %q", err, text)
	}
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))(t)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		body, _ = io.ReadAll(answer) // TLS need not end in order
	}
	return resp, string(body)
}

// TestProgramsGetRequestsAsTheyCame: a pod behind the upstream gets the same head of a request by
// way of a replica, but for one more address in X-Forwarded-For.
func TestProgramsGetRequestsAsTheyCame(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	token := account(t, admin, "tester", []string{"cluster-admin"})
	pod := startEcho(t).(*net.TCPAddr)
	off := false
	made := must(admin.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "echo"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "tester", AutomountServiceAccountToken: &off, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{}))(t)
	made.Status.Phase, made.Status.PodIP, made.Status.PodIPs = corev1.PodRunning, pod.IP.String(), []corev1.PodIP{{IP: pod.IP.String()}}
	must(admin.CoreV1().Pods("default").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))(t)
	replica := harness.StartReplica(t, upstream)
	heads := map[string]string{
		"plain":         "",
		"forwarded":     "Forwarded: for=a;host=b\nX-Forwarded-Host: c\nX-Forwarded-Proto: gopher\nX-Forwarded-For: 192.0.2.7\nX-Forwarded-For: 192.0.2.8\nX-Forwarded-Port: 7\nX-Real-Ip: 192.0.2.9\nVia: 1.0 fred\n",
		"hop by hop":    "Connection: X-Forwarded-Host, X-Own\nX-Forwarded-Host: c\nX-Own: d\nTe: trailers\nKeep-Alive: 9\nProxy-Connection: x\n",
		"audit":         "Audit-Id: 77\n",
		"odd names":     "x-lower: 1\nX-MIXED-case: 2\nUser-Agent:\nX_Under: 3\n",
		"odd user":      "User-Agent: odd/1\nCookie: a=b; c=d\n",
		"WebSocket":     "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\nSec-WebSocket-Protocol: b.c,  v4.channel.k8s.io\n",
		"two offers":    "connection: Upgrade\nupgrade: WebSocket\nsec-websocket-version: 13\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\nsec-websocket-protocol: b\nsec-websocket-protocol: c\n",
		"other upgrade": "Connection: Upgrade\nUpgrade: SPDY/3.1\nX-Stream-Protocol-Version: v4.channel.k8s.io\n",
	}
	paths := []string{"", "/", "/a%2Fb//c/./d/?x=%zz&y;z=1&", "/%7Ba%7D{b}|\"<>^`\\", "/a/?", "/x%20y+z"}
	for who, add := range map[string]string{"token": "Authorization: Bearer " + token + "\n", "certificate": ""} {
		for name, head := range heads {
			for _, path := range paths {
				if who == "certificate" && strings.Contains(path, "/./") {
					continue // refused: see TestOddPaths
				}
				text := fmt.Sprintf("GET /api/v1/namespaces/default/pods/echo:%d/proxy%s HTTP/1.1\nHost: example.org\n%s%s", pod.Port, path, add, head)
				text = strings.TrimSuffix(text, "\n")
				var got [2]string
				for i, server := range []*harness.Server{upstream, replica} {
					config := server.Config()
					if who == "token" {
						config = withToken(server, t, token)
					}
					resp, body := sendRaw(t, config, text)
					if i == 1 {
						body = strings.Replace(body, ", 127.0.0.1\r\n", "\r\n", 1) // the replica's own address
					}
					got[i] = fmt.Sprintln(resp.StatusCode, resp.Header.Get("Location")) + sorted(body)
				}
				if got[0] != got[1] {
					t.Errorf("%s, %s %q: straight\n%s, by the replica\n%s", who, name, path, got[0], got[1])
				}
			}
		}
	}
}

// sorted sorts the lines of a head. It leaves out the host, which is the upstream's for those who
// come by the replica.
func sorted(head string) string {
	lines := strings.Split(head, "\r\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Host: ") })
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// oddPaths are such that somebody on the way might read in another way than the upstream does.
var oddPaths = []string{
	"//api/v1/pods", "/api//v1/pods", "/api/v1//pods", "/api/v1/./pods", "/apis/apps/../../api/v1/pods", "/api/v1/namespaces/default/pods/..", "/api/v1/namespaces/../pods",
	"/api/v1/pods/", "/api/v1/namespaces/default/pods/", "/api/v1/namespaces/default/configmaps/.", "/%61pi/v1/pods", "/api/v1/%70ods", "/api/v1/namespaces/%2e%2e/pods", "/api%2Fv1/pods", "/api/v1/pods%2F",
	"/openapi/v3//api/v1", "/openapi/v3/../../api/v1/secrets", "/openapi/v3/", "/openapi/v3/api/v1/", "/openapi/v2/", "/openapi//v3", "/api/", "/apis/", "/apis/apps/", "/apis/apps/v1/", "/apis/..", "/version/", "//version", "/version/.",
	"/healthz/", "//healthz", "/livez/", "/readyz/", "/readyz/..", "/metrics/", "/metrics/../version", "/./healthz", "/debug/../version", "/healthz//ping", "/", "/.", "/..",
}

// TestOddPaths: who asks for such a path with a token gets the upstream's answer. The user of a
// certificate, whom the replica would have to vouch for, gets that or an error.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	token := account(t, clientset(t, upstream.Config()), "tester", []string{"cluster-admin"})
	replica := harness.StartReplica(t, upstream, "--follow=pods,configmaps")
	for who, authorization := range map[string]string{"token": "\nAuthorization: Bearer " + token, "certificate": "", "nobody": ""} {
		for _, path := range oddPaths {
			var got [2]string
			for i, server := range []*harness.Server{upstream, replica} {
				config := server.Config()
				if who != "certificate" {
					config = withToken(server, t, "")
				}
				resp, body := sendRaw(t, config, "GET "+path+" HTTP/1.1\nHost: example.org"+authorization)
				got[i] = fmt.Sprintln(resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Location"), body)
			}
			refused := who == "certificate" && strings.HasPrefix(got[1], "400 ") && strings.Contains(got[1], "bearer token")
			if got[0] != got[1] && !refused {
				t.Errorf("%s, %s: straight\n%s, by the replica\n%s", who, path, got[0], got[1])
			}
		}
	}
}
