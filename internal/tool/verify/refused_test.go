package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify"
)

// newRefusingAPI is a server that answers some requests with 403. refuses is called for each.
func newRefusingAPI(t *testing.T, refuses func(*http.Request) bool) *rest.Config {
	t.Helper()
	return newRefusing(t, "registers is forbidden", refuses)
}

func newRefusing(t *testing.T, message string, refuses func(*http.Request) bool) *rest.Config {
	t.Helper()
	return newProxyAPI(t, newFakeAPI(t, ""), func(w http.ResponseWriter, req *http.Request, server http.Handler) {
		if !refuses(req) {
			server.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: http.StatusForbidden, Message: message})
	})
}

func config(server *rest.Config, duration time.Duration) verify.Config {
	return verify.Config{Servers: []*rest.Config{server}, Duration: duration, Writers: 2, Readers: 2, Watchers: 2, Rate: 100, Keys: 6, Seed: 1}
}

// TestMissingRight ends before the clients begin, with what is missing, and removes what was
// created.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	for verb, refuses := range map[string]func(*http.Request) bool{
		"watch registers at":        func(req *http.Request) bool { return req.URL.Query().Get("watch") != "" },
		"patch registers/probe at":  func(req *http.Request) bool { return req.Method == http.MethodPatch },
		"update registers/probe at": func(req *http.Request) bool { return req.Method == http.MethodPut },
		"delete registers/probe at": func(req *http.Request) bool {
			return req.Method == http.MethodDelete && strings.HasSuffix(req.URL.Path, "/probe")
		},
		"get registers at": func(req *http.Request) bool {
			return req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/probe")
		},
	} {
		var removed atomic.Int64
		server := newRefusingAPI(t, func(req *http.Request) bool {
			if req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "customresourcedefinitions") {
				removed.Add(1)
			}
			return strings.Contains(req.URL.Path, "/registers") && !strings.Contains(req.URL.Path, "customresourcedefinitions") && refuses(req)
		})
		report, err := verify.Run(t.Context(), config(server, time.Minute))
		if report != nil || err == nil || !strings.Contains(err.Error(), verb) || !strings.Contains(err.Error(), "403: registers is forbidden") {
			t.Errorf("%s: report %v, error %v", verb, report, err)
		}
		if removed.Load() != 1 {
			t.Errorf("%s: the definition was removed %d times", verb, removed.Load())
		}
	}
}

// TestRemovedByAnotherServer removes what was created although the first server no longer does.
func TestRemovedByAnotherServer(t *testing.T) {
	t.Parallel()
	whole := newFakeAPI(t, "")
	behind := func(answer func(w http.ResponseWriter, req *http.Request) bool) *rest.Config {
		return newProxyAPI(t, whole, func(w http.ResponseWriter, req *http.Request, whole http.Handler) {
			removesNamespace := req.Method == http.MethodDelete && path.Base(path.Dir(req.URL.Path)) == "namespaces"
			if !removesNamespace || !answer(w, req) {
				whole.ServeHTTP(w, req)
			}
		})
	}
	var refused, removed atomic.Int64
	first := behind(func(w http.ResponseWriter, _ *http.Request) bool {
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	second := behind(func(http.ResponseWriter, *http.Request) bool {
		removed.Add(1)
		return false
	})
	c := config(first, time.Second)
	c.Servers = append(c.Servers, second)
	if _, err := verify.Run(t.Context(), c); err != nil {
		t.Error(err)
	}
	if refused.Load() == 0 || removed.Load() != 1 {
		t.Errorf("%d refusals of the first server, %d removals by the second", refused.Load(), removed.Load())
	}
}

// TestNothingCreated says nothing of removal if the namespace was refused.
func TestNothingCreated(t *testing.T) {
	t.Parallel()
	server := newRefusingAPI(t, func(req *http.Request) bool { return req.Method == http.MethodPost || req.Method == http.MethodDelete })
	_, err := verify.Run(t.Context(), config(server, time.Minute))
	if err == nil || !strings.Contains(err.Error(), "create namespace") || strings.Contains(err.Error(), "delete") {
		t.Errorf("got %v", err)
	}
}

// TestRefusedWrites are violations, and counted.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	server := newRefusingAPI(t, func(req *http.Request) bool {
		return req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/registers/k")
	})
	report, err := verify.Run(t.Context(), config(server, 2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(report.ViolationsOf(verify.Answers, "")); n == 0 || n != report.Counts.Refused || n != report.Violations() {
		t.Errorf("%d violations of %q, of %d in all, and %d refused writes", n, verify.Answers, report.Violations(), report.Counts.Refused)
	}
}

// TestNotReady takes the 403 of a server that has just been started for trouble, also in the
// first writes.
func TestNotReady(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	server := newRefusing(t, `registers "k001" is forbidden: not yet ready to handle request`, func(req *http.Request) bool {
		return req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/registers/") && writes.Add(1)%2 == 1
	})
	report, err := verify.Run(t.Context(), config(server, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if report.Violations() > 0 || report.Counts.Refused > 0 {
		t.Errorf("%d violations, %d refused writes:\n%s", report.Violations(), report.Counts.Refused, told(t, report))
	}
}

// TestInterrupted reports what there was until an interrupt.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	var reads atomic.Int64
	server := newRefusingAPI(t, func(req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/registers/k") && reads.Add(1) == 50 {
			interrupt()
		}
		return false
	})
	report, err := verify.Run(ctx, config(server, time.Minute))
	if report == nil || err == nil || !strings.Contains(err.Error(), "interrupted after") {
		t.Fatalf("report %v, error %v", report, err)
	}
	if report.Counts.Writes == 0 || report.Counts.Reads == 0 || report.Violations() > 0 {
		t.Errorf("the report of an interrupted run:\n%s", told(t, report))
	}
}

// TestReportThatCannotBeWritten is an error before anything is sent.
func TestReportThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := newRefusingAPI(t, func(*http.Request) bool { return requests.Add(1) > 0 })
	cmd := verify.NewCommand("test")
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors = true
	cmd.SetArgs([]string{"--kubeconfig=" + kubeconfigOf(t, server.Host), "--report=" + filepath.Join(t.TempDir(), "missing", "report.html")})
	if err := cmd.ExecuteContext(t.Context()); err == nil || requests.Load() > 0 {
		t.Errorf("error %v after %d requests", err, requests.Load())
	}
}

// TestOnceMore shows a command that reaches the same server, and ends with exit code 2 after
// violations.
func TestOnceMore(t *testing.T) {
	t.Parallel()
	server := newRefusingAPI(t, func(req *http.Request) bool {
		return req.Method == http.MethodPut && strings.Contains(req.URL.Path, "/registers/k")
	})
	file := kubeconfigOf(t, "http://127.0.0.1:1")
	var out bytes.Buffer
	cmd := verify.NewCommand("test")
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors = true
	cmd.SetArgs([]string{"--kubeconfig=" + file, "--server=" + server.Host, "--duration=2s", "--rate=200", "--request-timeout=7s"})
	err := cmd.ExecuteContext(t.Context())
	if found := (*verify.ViolationsError)(nil); !errors.As(err, &found) || found.ExitCode() != 2 {
		t.Errorf("error %v", err)
	}
	if want := "once more: millrace-tools verify --kubeconfig " + file + " --server " + server.Host + " --seed "; !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "--request-timeout 7s") {
		t.Errorf("the report does not say %q:\n%s", want, out.String())
	}
}
