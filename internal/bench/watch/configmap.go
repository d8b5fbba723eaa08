package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/bench/testbed"
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
			"annotations": map[string]string{testbed.StampKey: testbed.FormatStamp(at), "deployment.kubernetes.io/revision": fmt.Sprint(round)},
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
func configMapChanges(set string, objects int) testbed.ChangeFunc {
	return func(i int, at time.Time) testbed.Change {
		object, round := i%objects, i/objects+1
		return testbed.Change{
			Method: http.MethodPut, URI: configMapsPath + "/" + configMapName(set, object), ContentType: testbed.AcceptJSON,
			Body: configMap(set, object, round, at),
		}
	}
}

// podChanges are status patches of pods in turn, as kubelets send them.
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

// createConfigMaps makes a set's config maps that are not there yet.
func createConfigMaps(ctx context.Context, w *testbed.Writer, set string, n int) error {
	return w.Each(ctx, testbed.Turns(n), func(ctx context.Context, c *testbed.Conn, i int) error {
		ch := testbed.Change{Method: http.MethodPost, URI: configMapsPath, ContentType: testbed.AcceptJSON, Body: configMap(set, i, 0, time.Now())}
		return w.Target.Write(ctx, c, ch, http.StatusCreated, http.StatusConflict)
	})
}

// removeConfigMaps deletes all that createConfigMaps made, of any set.
func removeConfigMaps(ctx context.Context, w *testbed.Writer) error {
	return w.Target.Write(ctx, w.Conns[0], testbed.Change{Method: http.MethodDelete, URI: configMapsPath + "?labelSelector=" + watchLabel}, http.StatusOK)
}
