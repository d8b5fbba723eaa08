package kube

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// failingHook fails a number of times.
type failingHook struct {
	name     string
	failures int
	calls    chan int
}

func (h *failingHook) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	calls := 0
	return h.name, func(genericapiserver.PostStartHookContext) error {
		calls++
		h.calls <- calls
		if calls <= h.failures {
			return errors.New("an object cannot be read")
		}
		return nil
	}, nil
}

// TestSurvivingHook: a hook that fails after the start ends no process. It is called again until it
// succeeds, except for that of Services, whose loops go on by themselves.
func TestSurvivingHook(t *testing.T) {
	for name, calls := range map[string]int{
		"rbac/bootstrap-roles": 3, "scheduling/bootstrap-system-priority-classes": 3, "priority-and-fairness-config-producer": 3,
		"start-service-ip-repair-controllers": 1,
	} {
		failing := &failingHook{name: name, failures: 2, calls: make(chan int, 8)}
		_, hook, err := survivingHook{hook: failing, retry: time.Millisecond, logger: slog.New(slog.DiscardHandler)}.PostStartHook()
		if err != nil {
			t.Fatal(err)
		}
		if err := hook(genericapiserver.PostStartHookContext{Context: t.Context()}); err != nil {
			t.Errorf("%s: the server ends with %v", name, err)
		}
		for want := range calls {
			if got := <-failing.calls; got != want+1 {
				t.Errorf("%s: call %d, want %d", name, got, want+1)
			}
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	failing := &failingHook{failures: 1, calls: make(chan int, 1)}
	_, hook, _ := survivingHook{hook: failing, logger: slog.New(slog.DiscardHandler)}.PostStartHook()
	if err := hook(genericapiserver.PostStartHookContext{Context: ended}); err == nil {
		t.Error("a hook that fails at the end of the server has succeeded")
	}
}
