package programs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// stubKubelet is the server of all nodes, and of all programs in their pods. Commands run
// on this machine, in a directory for each pod.
type stubKubelet struct {
	*httptest.Server
	// host is the address of nodes and pods. Kubernetes proxies to no loopback address.
	host string
	// sandbox has the directories of pods.
	sandbox string
	// web serves the port of pods.
	web *httptest.Server
	// followers are the logs that are being followed, forwarders the connections to ports
	// of pods.
	followers, forwarders atomic.Int64
	// endless counts the bytes that were sent from the endless port.
	endless atomic.Int64
}

// Ports of pods that only forwarded connections reach.
const (
	echoPort    = 7
	endlessPort = 19
	webPort     = 80
)

const (
	// streamIdle is how long a connection to a container may rest.
	streamIdle = 10 * time.Minute
	// followLines is how many lines a container writes to a log that is followed, each
	// after followPause.
	followLines = 5
	followPause = 50 * time.Millisecond
)

func startKubelet(t *testing.T) *stubKubelet {
	t.Helper()
	k := &stubKubelet{host: hostAddress(t), sandbox: t.TempDir()}
	k.web = listening(t, k.host, serveWeb)
	k.web.Start()
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.serveExec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.serveAttach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.servePortForward)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	k.Server = listening(t, k.host, mux.ServeHTTP)
	k.StartTLS()
	return k
}

// serveWeb is the program in a pod. Kubernetes rewrites redirects and links of such programs.
func serveWeb(w http.ResponseWriter, req *http.Request) {
	switch req.URL.Path {
	case "/redirect":
		w.Header().Set("Location", "http://"+req.Host+"/elsewhere")
		w.WriteHeader(http.StatusFound)
	case "/page":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<html><body><a href="/elsewhere">link</a></body></html>`)
	default:
		fmt.Fprintf(w, "%s %s\n", req.Method, req.URL)
	}
}

// listening makes a server that has an address, and is closed with the test.
func listening(t *testing.T, host string, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	_ = s.Listener.Close()
	s.Listener = must(net.Listen("tcp", net.JoinHostPort(host, "0")))(t)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// hostAddress returns an IPv4 address of this machine that is not a loopback address.
func hostAddress(t *testing.T) string {
	t.Helper()
	for _, a := range must(net.InterfaceAddrs())(t) {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("the machine has no IPv4 address but the loopback one")
	return ""
}

func portOf(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }

// serveLogs writes three lines, and further ones with pauses to a follower. A container
// whose name begins with "talk" goes on until the follower has gone.
func (k *stubKubelet) serveLogs(w http.ResponseWriter, req *http.Request) {
	first := 1
	if tail, err := strconv.Atoi(req.FormValue("tailLines")); err == nil {
		first = max(first, 4-tail)
	}
	stamp := ""
	if req.FormValue("timestamps") == "true" {
		stamp = "2026-01-01T00:00:00Z "
	}
	for i := first; i <= 3; i++ {
		fmt.Fprintf(w, "%s%s line %d\n", stamp, req.PathValue("container"), i)
	}
	if req.FormValue("follow") != "true" {
		return
	}
	k.followers.Add(1)
	defer k.followers.Add(-1)
	_ = http.NewResponseController(w).Flush()
	pause := time.NewTicker(followPause)
	defer pause.Stop()
	endless := strings.HasPrefix(req.PathValue("container"), "talk")
	for i := 4; endless || i < 4+followLines; i++ {
		select {
		case <-pause.C:
		case <-req.Context().Done():
			return
		}
		fmt.Fprintf(w, "%s%s line %d\n", stamp, req.PathValue("container"), i)
		_ = http.NewResponseController(w).Flush()
	}
}

func (k *stubKubelet) serveExec(w http.ResponseWriter, req *http.Request) {
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod := filepath.Join(req.PathValue("namespace"), req.PathValue("pod"))
	remotecommand.ServeExec(w, req, k, pod, "", req.PathValue("container"), req.URL.Query()["command"], options,
		streamIdle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer implements remotecommand.Executor.
func (k *stubKubelet) ExecInContainer(ctx context.Context, pod, _, _ string, command []string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	dir := filepath.Join(k.sandbox, pod)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stdin = dir, in
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out != nil {
		cmd.Stdout = out
	}
	if errOut != nil {
		cmd.Stderr = errOut
	}
	err := cmd.Run()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return utilexec.CodeExitError{Err: err, Code: ended.ExitCode()}
	}
	return err
}

func (k *stubKubelet) serveAttach(w http.ResponseWriter, req *http.Request) {
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, req, k, req.PathValue("pod"), "", req.PathValue("container"), options,
		streamIdle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// AttachContainer implements remotecommand.Attacher. The container repeats what it is told.
func (k *stubKubelet) AttachContainer(_ context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	if in == nil {
		_, err := io.WriteString(out, "attached without input\n")
		return err
	}
	_, err := io.Copy(out, in)
	return err
}

func (k *stubKubelet) servePortForward(w http.ResponseWriter, req *http.Request) {
	options, err := portforward.NewV4Options(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod := filepath.Join(req.PathValue("namespace"), req.PathValue("pod"))
	portforward.ServePortForward(w, req, k, pod, "", options, streamIdle, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}

// PortForward implements portforward.PortForwarder.
func (k *stubKubelet) PortForward(_ context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	k.forwarders.Add(1)
	defer k.forwarders.Add(-1)
	switch port {
	case echoPort:
		_, err := io.Copy(stream, stream)
		return err
	case endlessPort:
		block := make([]byte, 32<<10)
		for {
			n, err := stream.Write(block)
			k.endless.Add(int64(n))
			if err != nil {
				return nil // the client has gone
			}
		}
	case webPort:
		return answerHTTP(stream, pod)
	}
	return fmt.Errorf("nothing listens on port %d", port)
}

// answerHTTP answers the requests of a connection.
func answerHTTP(stream io.ReadWriter, pod string) error {
	for reader := bufio.NewReader(stream); ; {
		req, err := http.ReadRequest(reader)
		if err != nil {
			return nil // the client has gone
		}
		body := fmt.Sprintf("%s of %s\n", req.URL, filepath.Dir(pod))
		if _, err := fmt.Fprintf(stream, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			return err
		}
	}
}
