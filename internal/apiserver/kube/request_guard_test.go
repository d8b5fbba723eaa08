package kube

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/millrace/millrace/internal/account/panics"
)

// TestRequestGuard has handlers panic. One that has not begun its answer is answered with 500,
// and its connection stays. One that has begun is aborted, and so is one that asks for it.
func TestRequestGuard(t *testing.T) {
	reallyCrash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = reallyCrash, handlers })
	counter := panics.New(slog.New(slog.DiscardHandler))
	SurvivePanics(counter)
	var failed []string
	guard := &requestGuard{counter: counter, failed: func(group, resource string) { failed = append(failed, group+"/"+resource) }}
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		// code is the status of the answer, 0 if it is aborted. failed is the resource that is
		// counted.
		code   int
		failed string
		// counted is the number of panics.
		counted int64
	}{
		"a panic":                  {func(http.ResponseWriter, *http.Request) { panic("odd") }, 500, "apps/deployments", 1},
		"a nil dereference":        {func(http.ResponseWriter, *http.Request) { var none *http.Request; _ = none.URL.Path }, 500, "apps/deployments", 1},
		"a panic behind the head":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("odd") }, 0, "", 1},
		"a panic behind bytes":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")); panic("odd") }, 0, "", 1},
		"an abort":                 {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "", 0},
		"an abort behind bytes":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")); panic(http.ErrAbortHandler) }, 0, "", 0},
		"an answer":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, "", 0},
		"an answer with 500":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 500, "apps/deployments", 0},
		"an answer without a head": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, 200, "", 0},
	} {
		before, _ := counter.Counts()
		failed = nil
		chain := chainBuilder{build: genericapiserver.DefaultBuildHandlerChain, guard: guard}.chain(c.handle, testConfig())
		w := httptest.NewRecorder()
		var panicked any
		func() {
			defer func() { panicked = recover() }()
			chain.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/apps/v1/namespaces/a/deployments/b", nil))
		}()
		aborted := panicked == http.ErrAbortHandler
		if aborted != (c.code == 0) || panicked != nil && !aborted || !aborted && w.Code != c.code {
			t.Errorf("%s: status %d, panic %v, want status %d", name, w.Code, panicked, c.code)
		}
		if got := strings.Join(failed, " "); got != c.failed {
			t.Errorf("%s: counted failures of %q, want %q", name, got, c.failed)
		}
		after, _ := counter.Counts()
		if got := after[panics.Request] - before[panics.Request]; got != c.counted {
			t.Errorf("%s: counted %d counter, want %d", name, got, c.counted)
		}
	}
}

// TestControllersSurvive checks that a goroutine of Kubernetes goes on after a panic, and that
// the panic is counted.
func TestControllersSurvive(t *testing.T) {
	reallyCrash, handlers := utilruntime.ReallyCrash, slices.Clone(utilruntime.PanicHandlers)
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = reallyCrash, handlers })
	counter := panics.New(slog.New(slog.DiscardHandler))
	SurvivePanics(counter)
	func() {
		defer utilruntime.HandleCrash()
		panic("odd")
	}()
	if counts, last := counter.Counts(); counts[panics.Controller] != 1 || last.Text != "odd" {
		t.Errorf("counted %v, the last is %q", counts, last.Text)
	}
}
