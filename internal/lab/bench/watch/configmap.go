package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// contentBytes is the least size of a config map's data. The object then has about 2 KB of
	// JSON.
	contentBytes = 1500
	// watchNamespace exists on every server.
	watchNamespace = "default"
	configMapsPath = "/api/v1/namespaces/" + watchNamespace + "/configmaps"
	podsPath       = "/api/v1/pods"
	// watchLabel is on every object that "bench watch" creates.
	watchLabel = "bench.millrace.io/watch"
)

const contentWords = "cache client timeout retry limit queue worker batch index session token buffer route backend " +
	"health probe interval window budget shard replica region tenant invoice order payment catalog search"

// configMapName returns the name of config map i of a set.
func configMapName(set string, i int) string { return fmt.Sprintf("bench-watch-%s-%05d", set, i) }

// configMap returns config map i of a set as JSON, with the stamp of at. It resembles a program's
// settings: lines of words and numbers, of which some change from round to round.
func configMap(set string, i, round int, at time.Time) []byte {
	object := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": configMapName(set, i), "namespace": watchNamespace,
			"labels":      map[string]string{watchLabel: set, "app.kubernetes.io/managed-by": "Helm"},
			"annotations": map[string]string{testbed.StampKey: testbed.FormatStamp(at), "deployment.kubernetes.io/revision": fmt.Sprint(round)},
		},
		"data": map[string]string{"application.properties": properties(i, round)},
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("encode a config map: %v", err)) // it consists of strings
	}
	return text
}

// properties returns the text of config map i. Two tenths of its lines change from round to round: one
// tenth gets new values, and another its first ones again.
func properties(i, round int) string {
	words := strings.Fields(contentWords)
	constant := rand.New(rand.NewPCG(uint64(i), 0))
	var b strings.Builder
	for line := 0; b.Len() < contentBytes; line++ {
		names := []any{words[constant.IntN(len(words))], words[constant.IntN(len(words))], words[constant.IntN(len(words))]}
		value := constant.IntN(100_000)
		if line%10 == round%10 {
			value = rand.New(rand.NewPCG(uint64(i), uint64(round))).IntN(100_000)
		}
		fmt.Fprintf(&b, "%s.%s.%s=%d\n", append(names, value)...)
	}
	return b.String()
}

// configMapChanges returns updates of the config maps of a set, round-robin.
func configMapChanges(set string, objects int) testbed.ChangeFunc {
	return func(i int, at time.Time) testbed.Change {
		object, round := i%objects, i/objects+1
		return testbed.Change{
			Method: http.MethodPut, URI: configMapsPath + "/" + configMapName(set, object), ContentType: testbed.AcceptJSON,
			Body: configMap(set, object, round, at),
		}
	}
}

// podChanges returns patches of the status of pods, round-robin. Kubelets send such patches.
func podChanges(pods []testbed.PodSample) testbed.ChangeFunc {
	return func(i int, at time.Time) testbed.Change {
		pod := pods[i%len(pods)].Metadata
		return testbed.Change{
			Method: http.MethodPatch, ContentType: "application/merge-patch+json",
			URI: "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "/status",
			Body: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"status":{"message":"probe %d succeeded"}}`,
				testbed.StampKey, testbed.FormatStamp(at), i),
		}
	}
}

// createConfigMaps creates config maps 0 to n-1 of a set, unless they exist.
func createConfigMaps(ctx context.Context, w *testbed.Writer, set string, n int) error {
	return w.Each(ctx, testbed.Turns(n), func(ctx context.Context, c *testbed.Conn, i int) error {
		ch := testbed.Change{Method: http.MethodPost, URI: configMapsPath, ContentType: testbed.AcceptJSON,
			Body: configMap(set, i, 0, time.Now())}
		return w.Target.Write(ctx, c, ch, http.StatusCreated, http.StatusConflict)
	})
}

const (
	// removeAttempts bounds the LISTs of removeConfigMaps.
	removeAttempts = 4
	// removePause is the time between them.
	removePause = 200 * time.Millisecond
)

// removeConfigMaps deletes the config maps of all sets, until a LIST has none. After an interrupt a
// server may still create config maps of requests that were cancelled.
func removeConfigMaps(ctx context.Context, w *testbed.Writer) error {
	for range removeAttempts {
		if removed, err := removeListedConfigMaps(ctx, w); err != nil || removed == 0 {
			return err
		}
		if err := testbed.Sleep(ctx, removePause); err != nil {
			return err
		}
	}
	return nil
}

// removeListedConfigMaps deletes the config maps that exist now, and returns their number. It does
// not rely on the server's selector, because the namespace also has config maps of others.
func removeListedConfigMaps(ctx context.Context, w *testbed.Writer) (removed int, err error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string            `json:"name"`
				UID    string            `json:"uid"`
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := w.Target.Get(ctx, configMapsPath+"?labelSelector="+watchLabel, &list); err != nil {
		return 0, err
	}
	for i := range list.Items {
		if m := &list.Items[i].Metadata; m.Labels[watchLabel] != "" {
			list.Items[removed] = list.Items[i]
			removed++
		}
	}
	return removed, w.Each(ctx, testbed.Turns(removed), func(ctx context.Context, c *testbed.Conn, i int) error {
		m := &list.Items[i].Metadata
		ch := testbed.Change{
			Method: http.MethodDelete, URI: configMapsPath + "/" + m.Name, ContentType: testbed.AcceptJSON,
			Body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":%q}}`, m.UID),
		}
		return w.Target.Write(ctx, c, ch, http.StatusOK, http.StatusNotFound)
	})
}

// RemoveConfigMaps removes the config maps that an interrupted run has left in a server.
func RemoveConfigMaps(ctx context.Context, t *testbed.Target) error {
	w, err := testbed.NewWriter(ctx, t)
	if err != nil {
		return err
	}
	defer w.Close()
	return removeConfigMaps(ctx, w)
}
