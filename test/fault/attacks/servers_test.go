package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	honestToken, attackerToken = "honest", "attacker"
	// curiousToken is of a user without rights.
	curiousToken = "curious"
	namespace    = "default"
	// objects is the number of objects in a LIST, objectSize the bytes of each.
	objects, objectSize = 200, 10 << 10
)

// server is a server under attack.
type server struct {
	*harness.Server
	name string
	// open is a path that needs no credentials.
	open string
}

func startOurs(t *testing.T) *server {
	return startServer(t, "millrace", "/millrace/style.css")
}

func startStock(t *testing.T) *server {
	return startServer(t, "Go", "/version", "--read-path=kubernetes")
}

func startServer(t *testing.T, name, open string, args ...string) *server {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("memory and CPU of a process are read from /proc")
	}
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	text := honestToken + ",honest,1\n" + attackerToken + ",attacker,2\n" + curiousToken + ",curious,3\n"
	for i := range agentTokens {
		text += agentToken(i) + ",agent,4,agents\n"
	}
	if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--token-auth-file="+tokens)
	s := &server{harness.Start(t, filepath.Join(harness.ShortTempDir(t), "data"), args...), name, open}
	s.prepare(t)
	return s
}

// prepare lets the users read, and creates what they read.
func (s *server) prepare(t *testing.T) {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	subject := func(kind, name string) rbac.Subject {
		return rbac.Subject{APIGroup: rbac.GroupName, Kind: kind, Name: name}
	}
	grant := func(name string, verbs []string, to ...rbac.Subject) {
		_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbac.ClusterRole{
			ObjectMeta: meta.ObjectMeta{Name: name},
			Rules:      []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "services"}, Verbs: verbs}},
		}, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
			ObjectMeta: meta.ObjectMeta{Name: name}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: name}, Subjects: to,
		}, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	honest := subject(rbac.UserKind, "honest")
	grant("writers", []string{"create", "patch"}, honest)
	grant("readers", []string{"get", "list", "watch"}, honest, subject(rbac.UserKind, "attacker"), subject(rbac.GroupKind, "agents"))
	text := strings.Repeat("x", objectSize)
	for i := range objects {
		object := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("object-%d", i)}, Data: map[string]string{"text": text}}
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// usage is what a process uses: resident memory in bytes, and CPU time since its start.
type usage struct {
	rss int64
	cpu time.Duration
}

// usage reads the server's usage from /proc.
func (s *server) usage(t testing.TB) usage {
	t.Helper()
	// See proc(5). Counted from the state, which follows the name: fields 12 and 13 are
	// user and system time in hundredths of a second, and field 22 is resident pages.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	number := func(i int) int64 {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return usage{rss: number(21) * int64(os.Getpagesize()), cpu: time.Duration(number(11)+number(12)) * 10 * time.Millisecond}
}

// metrics reads the server's metrics as the administrator.
func (s *server) metrics(ctx context.Context) (string, error) {
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(b), err
}

// sumOfLines adds up the values of the metrics whose lines have all of some texts.
func sumOfLines(metrics string, texts ...string) (sum float64) {
	for line := range strings.Lines(metrics) {
		if slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			continue
		}
		value, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
		sum += value
	}
	return sum
}
