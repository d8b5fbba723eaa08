package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

const (
	// contentBytes is about what a config map's data has as JSON; with the rest
	// the object is one of 2 KB.
	contentBytes = 1500
	// watchNamespace is there on every server.
	watchNamespace = "default"
	configMapsPath = "/api/v1/namespaces/" + watchNamespace + "/configmaps"
	// watchLabel is on all that "bench watch" creates.
	watchLabel = "bench.millrace.io/watch"
)

const contentWords = "cache client timeout retry limit queue worker batch index session token buffer route backend " +
	"health probe interval window budget shard replica region tenant invoice order payment catalog search"

// configMapName is that of object i of one set of them.
func configMapName(set string, i int) string { return fmt.Sprintf("bench-watch-%s-%05d", set, i) }

// configMap is an object like those that programs keep their settings in: lines
// of words and numbers, of which a few differ from one round to the next.
func configMap(set string, i, round int, at time.Time) []byte {
	object := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": configMapName(set, i), "namespace": watchNamespace,
			"labels":      map[string]string{watchLabel: set, "app.kubernetes.io/managed-by": "Helm"},
			"annotations": map[string]string{stampKey: formatStamp(at), "deployment.kubernetes.io/revision": fmt.Sprint(round)},
		},
		"data": map[string]string{"application.properties": properties(i, round)},
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("encode a config map: %v", err)) // it is plain strings
	}
	return text
}

// properties is the text: a tenth of its lines change in a round.
func properties(i, round int) string {
	words := strings.Fields(contentWords)
	lasting := rand.New(rand.NewPCG(uint64(i), 0))
	var b strings.Builder
	for line := 0; b.Len() < contentBytes; line++ {
		names := []any{words[lasting.IntN(len(words))], words[lasting.IntN(len(words))], words[lasting.IntN(len(words))]}
		value := lasting.IntN(100_000)
		if line%10 == round%10 {
			value = rand.New(rand.NewPCG(uint64(i), uint64(round))).IntN(100_000)
		}
		fmt.Fprintf(&b, "%s.%s.%s=%d\n", append(names, value)...)
	}
	return b.String()
}

// configMapChanges are updates of the objects of a set in turn.
func configMapChanges(set string, objects int) changeFunc {
	return func(i int, at time.Time) change {
		object, round := i%objects, i/objects+1
		return change{
			method: http.MethodPut, uri: configMapsPath + "/" + configMapName(set, object), contentType: acceptJSON,
			body: configMap(set, object, round, at),
		}
	}
}

// podChanges are status patches of pods in turn, as kubelets send them.
func podChanges(pods []podSample) changeFunc {
	return func(i int, at time.Time) change {
		pod := pods[i%len(pods)].Metadata
		return change{
			method: http.MethodPatch, contentType: "application/merge-patch+json",
			uri: "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "/status",
			body: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"status":{"message":"probe %d succeeded"}}`,
				stampKey, formatStamp(at), i),
		}
	}
}

// createConfigMaps makes a set's config maps that are not there yet.
func createConfigMaps(ctx context.Context, w *writer, set string, n int) error {
	return w.each(ctx, upTo(n), func(ctx context.Context, c *conn, i int) error {
		ch := change{method: http.MethodPost, uri: configMapsPath, contentType: acceptJSON, body: configMap(set, i, 0, time.Now())}
		return w.target.write(ctx, c, ch, http.StatusCreated, http.StatusConflict)
	})
}

// removeConfigMaps deletes all that createConfigMaps made, of any set.
func removeConfigMaps(ctx context.Context, w *writer) error {
	return w.target.write(ctx, w.conns[0], change{method: http.MethodDelete, uri: configMapsPath + "?labelSelector=" + watchLabel}, http.StatusOK)
}
