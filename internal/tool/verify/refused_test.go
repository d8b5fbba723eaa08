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

// newRefusingAPI starts a server that answers requests with 403 if refuses returns true for them.
func newRefusingAPI(t *testing.T, refuses func(*http.Request) bool) *rest.Config {
	t.Helper()
	return newAPIRefusingWith(t, "registers is forbidden", refuses)
}

// newAPIRefusingWith is newRefusingAPI with a message for the refusals.
func newAPIRefusingWith(t *testing.T, message string, refuses func(*http.Request) bool) *rest.Config {
	t.Helper()
	return newProxyAPI(t, newFakeAPI(t, ""), func(w http.ResponseWriter, req *http.Request, server http.Handler) {
		if !refuses(req) {
			server.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		status := metav1.Status{Code: http.StatusForbidden, Message: message}
		status.Kind, status.APIVersion = "Status", "v1"
		_ = json.NewEncoder(w).Encode(status)
	})
}

func config(server *rest.Config, duration time.Duration) verify.Config {
	return verify.Config{Servers: []*rest.Config{server}, Duration: duration, Writers: 2, Readers: 2, Watchers: 2, Rate: 100, Keys: 6, Seed: 1}
}

// TestMissingRight checks that a run without a right ends before its clients begin, names the
// right, and removes what it has created.
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

// TestRemovedByAnotherServer checks that a run removes its fixture at another server if the
// first one no longer does.
func TestRemovedByAnotherServer(t *testing.T) {
	t.Parallel()
	whole := newFakeAPI(t, "")
	inFront := func(answer func(w http.ResponseWriter, req *http.Request) bool) *rest.Config {
		return newProxyAPI(t, whole, func(w http.ResponseWriter, req *http.Request, whole http.Handler) {
			removesNamespace := req.Method == http.MethodDelete && path.Base(path.Dir(req.URL.Path)) == "namespaces"
			if !removesNamespace || !answer(w, req) {
				whole.ServeHTTP(w, req)
			}
		})
	}
	var refused, removed atomic.Int64
	first := inFront(func(w http.ResponseWriter, _ *http.Request) bool {
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	second := inFront(func(http.ResponseWriter, *http.Request) bool {
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

// TestNothingCreated checks that the error does not mention removal if the namespace was refused.
func TestNothingCreated(t *testing.T) {
	t.Parallel()
	server := newRefusingAPI(t, func(req *http.Request) bool { return req.Method == http.MethodPost || req.Method == http.MethodDelete })
	_, err := verify.Run(t.Context(), config(server, time.Minute))
	if err == nil || !strings.Contains(err.Error(), "create namespace") || strings.Contains(err.Error(), "delete") {
		t.Errorf("got %v", err)
	}
}

// TestRefusedWrites checks that refused writes are violations, and counted.
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

// TestNotReady checks that a 403 because of admission plugins that are not ready is no violation,
// also if it answers the first writes.
func TestNotReady(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	server := newAPIRefusingWith(t, `registers "k001" is forbidden: not yet ready to handle request`, func(req *http.Request) bool {
		return req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/registers/") && writes.Add(1)%2 == 1
	})
	report, err := verify.Run(t.Context(), config(server, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if report.Violations() > 0 || report.Counts.Refused > 0 {
		t.Errorf("%d violations, %d refused writes:\n%s", report.Violations(), report.Counts.Refused, reportText(t, report))
	}
}

// TestInterrupted checks that an interrupted run reports what was recorded by then.
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
		t.Errorf("the report of an interrupted run:\n%s", reportText(t, report))
	}
}

// TestReportThatCannotBeWritten checks that a file for the report that cannot be written is an
// error before anything is sent.
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

// TestOnceMore checks that the report has a command for the same server, and that the exit code
// is 2 after violations.
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
	want := "once more: millrace-tools verify --kubeconfig " + file + " --server " + server.Host + " --seed "
	if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "--request-timeout 7s") {
		t.Errorf("the report does not say %q:\n%s", want, out.String())
	}
}
