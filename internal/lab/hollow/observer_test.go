package hollow_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/lab/hollow"
)

// informerLog records the states of informers. It ends the run when an informer is lost, and ignores
// what that informer does until it has ended.
type informerLog struct {
	done context.CancelFunc
	mu   struct {
		sync.Mutex
		all map[uint64][]string
	}
}

func (l *informerLog) Started() {}

func (l *informerLog) Informer(number uint64, state hollow.InformerState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[hollow.InformerState]string{hollow.InformerListing: "listing", hollow.InformerSynced: "synced", hollow.InformerLost: "lost", hollow.InformerEnded: "ended"}
	if state != hollow.InformerEnded && slices.Contains(l.mu.all[number], names[hollow.InformerLost]) {
		return
	}
	l.mu.all[number] = append(l.mu.all[number], names[state])
	if state == hollow.InformerLost {
		l.done()
	}
}

func (l *informerLog) Failed(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.all[0] = append(l.mu.all[0], kind[:3])
}

// TestInformers follows an informer whose pauses are an hour. It repeats requests that the server
// throttles without such a pause.
func TestInformers(t *testing.T) {
	dir := profiles(t, "agents: [{name: scripted, per: cluster, backoff: {first: 1h, longest: 1h}, reads: [{resource: v1/configmaps, mode: watch-list}]}]")
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	api := &scriptedAPI{done: func() {}, steps: []step{
		{query: initial, status: http.StatusTooManyRequests, later: true},
		{query: initial, body: event("BOOKMARK", "7", `"k8s.io/initial-events-end":"true"`) + gone},
	}}
	seen := &informerLog{done: done}
	seen.mu.all = map[uint64][]string{}
	_, err := hollow.Run(ctx, hollow.Config{
		Name: "t", Nodes: 1, Agents: []string{"scripted"}, Profiles: dir, Namespace: "default", Start: hollow.StartStorm, REST: serve(t, api), Informers: seen,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := seen.mu.all[0]; !slices.Equal(got, []string{"429", "410"}) {
		t.Errorf("errors %q", got)
	}
	want := []string{"listing", "listing", "synced", "lost", "ended"}
	if !slices.ContainsFunc(slices.Collect(maps.Values(seen.mu.all)), func(states []string) bool { return slices.Equal(states, want) }) {
		t.Errorf("got %s, want %s", strings.ReplaceAll(fmt.Sprint(seen.mu.all), "] ", "]\n"), want)
	}
}
