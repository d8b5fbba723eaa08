package replica

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

func review() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }

// stubKubelet serves the logs and the commands of pods. Logs are lines that the test
// allows one by one. A command is an upgraded connection that returns each line.
type stubKubelet struct {
	*httptest.Server
	lines chan string
}

func startKubelet(t *testing.T) *stubKubelet {
	k := &stubKubelet{lines: make(chan string)}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/", func(w http.ResponseWriter, req *http.Request) {
		w.(http.Flusher).Flush() // the headers
		for line := range k.lines {
			fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/exec/", func(w http.ResponseWriter, req *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", req.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, buffered)
	})
	k.Server = httptest.NewTLSServer(mux)
	t.Cleanup(k.Close)
	return k
}

// addPod makes a pod on a node whose kubelet is the stub.
func (k *stubKubelet) addPod(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	host, port, err := net.SplitHostPort(k.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node := must(client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stub"}}, metav1.CreateOptions{}))(t)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	must(client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}))(t)
	must(client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))(t)
	must(client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{NodeName: "stub", Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}, metav1.CreateOptions{}))(t)
}

// TestStreamsPassThrough follows the log of a pod and runs a command in it through a
// replica: each line arrives before the next one is written.
func TestStreamsPassThrough(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	kubelet := startKubelet(t)
	kubelet.addPod(t, clientset(t, upstream.Config()))
	replica := harness.StartReplica(t, upstream, upstream.EtcdServers())

	t.Run("logs", func(t *testing.T) {
		stream := must(clientset(t, replica.Config()).CoreV1().Pods("default").GetLogs("pod", &corev1.PodLogOptions{Follow: true}).Stream(t.Context()))(t)
		defer stream.Close()
		lines := bufio.NewScanner(stream)
		for i := range 3 {
			line := fmt.Sprintf("line %d", i)
			kubelet.lines <- line
			if !lines.Scan() || lines.Text() != line {
				t.Fatalf("got %q, %v, want %q", lines.Text(), lines.Err(), line)
			}
		}
		close(kubelet.lines)
		if lines.Scan() {
			t.Errorf("got %q behind the end", lines.Text())
		}
	})
	t.Run("exec", func(t *testing.T) {
		conn := upgraded(t, replica.Config(), "/api/v1/namespaces/default/pods/pod/exec?command=cat&stdin=true&stdout=true&container=c")
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for i := range 3 {
			line := fmt.Sprintf("line %d\n", i)
			must(io.WriteString(conn, line))(t)
			if got, err := reader.ReadString('\n'); err != nil || got != line {
				t.Fatalf("got %q, %v, want %q", got, err, line)
			}
		}
	})
}

// upgraded opens a connection of another protocol, in which bytes are the test's own.
func upgraded(t *testing.T, config *rest.Config, path string) net.Conn {
	t.Helper()
	tlsConfig := must(rest.TLSConfigFor(config))(t)
	tlsConfig.NextProtos = []string{"http/1.1"}
	conn := must(tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), tlsConfig))(t)
	req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, config.Host+path, nil))(t)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "SPDY/3.1")
	req.Header.Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	resp := must(http.ReadResponse(bufio.NewReaderSize(conn, 1), req))(t)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("upgrade: %s %s", resp.Status, body)
	}
	return conn
}
