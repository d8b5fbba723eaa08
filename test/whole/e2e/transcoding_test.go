package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

var updatesFlag = flag.Int("updates", 60, "updates of each kind in TestMostObjectsAreTranscoded; 3000 take minutes, and give the figures of docs/design/transcode.md")

// updatedKind is a kind of which a cluster has most objects, or whose objects change most.
type updatedKind struct {
	// collection is the path of the objects, subresource that of what is patched.
	collection, subresource string
	// object and patch have %[1]d for the object's number. patch has %[2]d for that of the
	// update.
	object, patch string
}

var updatedKinds = map[string]updatedKind{
	"pods": {
		"/api/v1/namespaces/default/pods", "/status",
		`{"metadata":{"name":"o-%[1]d","labels":{"app":"a"}},"spec":{"containers":[{"name":"main","image":"registry.example/a:%[1]d","ports":[{"containerPort":8080}],
			"env":[{"name":"N","value":"%[1]d"}],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}},"readinessProbe":{"httpGet":{"path":"/ready","port":8080}}}]}}`,
		`{"status":{"phase":"Running","podIP":"10.0.%[1]d.1","podIPs":[{"ip":"10.0.%[1]d.1"}],"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","message":"%[2]d"}]}}`,
	},
	"nodes": {
		"/api/v1/nodes", "/status",
		`{"metadata":{"name":"o-%[1]d","labels":{"zone":"z-%[1]d"}}}`,
		`{"status":{"capacity":{"cpu":"8","memory":"32Gi"},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"%[2]d","lastHeartbeatTime":"2026-01-01T00:00:00Z"}]}}`,
	},
	"events": {
		"/api/v1/namespaces/default/events", "",
		`{"metadata":{"name":"o-%[1]d"},"involvedObject":{"kind":"Pod","namespace":"default","name":"o-%[1]d"},"reason":"Pulled","message":"m","type":"Normal","count":1,"source":{"component":"kubelet"},"firstTimestamp":"2026-01-01T00:00:00Z"}`,
		`{"count":%[2]d,"lastTimestamp":"2026-01-01T00:00:00Z"}`,
	},
	"leases": {
		"/apis/coordination.k8s.io/v1/namespaces/default/leases", "",
		`{"metadata":{"name":"o-%[1]d"},"spec":{"holderIdentity":"node-%[1]d","leaseDurationSeconds":40}}`,
		`{"spec":{"renewTime":"2026-01-01T00:00:00.%06[2]dZ"}}`,
	},
	"endpointslices": {
		"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "",
		`{"metadata":{"name":"o-%[1]d","labels":{"kubernetes.io/service-name":"s-%[1]d"}},"addressType":"IPv4","ports":[{"name":"http","port":80}],"endpoints":[{"addresses":["10.0.0.1"],"nodeName":"n","conditions":{"ready":true}}]}`,
		`{"endpoints":[{"addresses":["10.0.%[1]d.%[3]d"],"nodeName":"n-%[2]d","conditions":{"ready":true,"serving":true,"terminating":false}}]}`,
	},
	"secrets": {
		"/api/v1/namespaces/default/secrets", "",
		`{"metadata":{"name":"o-%[1]d"},"type":"Opaque","data":{"password":"c2VjcmV0"}}`,
		`{"stringData":{"password":"%[2]d"}}`,
	},
	"configmaps": {
		"/api/v1/namespaces/default/configmaps", "",
		`{"metadata":{"name":"o-%[1]d"},"data":{"a":"b"}}`,
		`{"data":{"a":"%[2]d <&> \"é\""}}`,
	},
}

// TestMostObjectsAreTranscoded updates objects of the kinds of which clusters have most, under
// a watch and with reads of each version in JSON and protobuf. Once their fingerprints are
// known, 99 of 100 objects must need no decoding but for samples.
func TestMostObjectsAreTranscoded(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	w := &updater{t: t, server: s, client: s.HTTPClient()}
	w.do(http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"default"}}`)
	for name, kind := range updatedKinds {
		t.Run(name, func(t *testing.T) {
			w.t = t
			const objects = 8
			for i := range objects {
				w.do(http.MethodPost, kind.collection, fmt.Sprintf(kind.object, i))
			}
			const first = 20 // updates after which all fingerprints are known
			w.update(kind, objects, 1, first)
			before := w.outcomes()
			w.update(kind, objects, first+1, *updatesFlag)
			counts := w.outcomes()
			var all float64
			for outcome := range counts {
				counts[outcome] -= before[outcome]
				all += counts[outcome]
			}
			t.Logf("%.0f objects: %.2f %% transcoded, %.2f %% samples, %.2f %% others", all, 100*counts["transcoded"]/all, 100*counts["compared"]/all,
				100*(all-counts["transcoded"]-counts["compared"])/all)
			if all < float64(*updatesFlag) || (counts["transcoded"]+counts["compared"])/all < .99 {
				t.Errorf("of %.0f objects: %v", all, counts)
			}
		})
	}
}

// updater writes and reads objects.
type updater struct {
	t      *testing.T
	server *harness.Server
	client *http.Client
}

// do sends a write and returns the resourceVersion of the result.
func (w *updater) do(method, path, body string) (revision string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		w.t.Fatalf("%s %s: %s, %v: %s", method, path, resp.Status, err, answer)
	}
	var obj struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(answer, &obj); err != nil {
		w.t.Fatal(err)
	}
	return obj.Metadata.ResourceVersion
}

// update updates objects by turns. It returns when a watch has seen the last update.
func (w *updater) update(kind updatedKind, objects, from, to int) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	resp, err := get(ctx, w.server, w.client, kind.collection+"?watch=true", "")
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var last string
	for n := from; n <= to; n++ {
		i := n % objects
		path := fmt.Sprintf("%s/o-%d", kind.collection, i)
		last = w.do(http.MethodPatch, path+kind.subresource, fmt.Sprintf(kind.patch, i, n, n%250))
		for path, accept := range map[string]string{path: "application/json", kind.collection: "application/vnd.kubernetes.protobuf"} {
			if code, body, err := fetch(ctx, w.server, w.client, path, accept); err != nil || code != http.StatusOK {
				w.t.Fatalf("%s: %d, %v: %s", path, code, err, body)
			}
		}
	}
	for events := json.NewDecoder(resp.Body); ; {
		var event struct {
			Object struct {
				Metadata struct{ ResourceVersion string }
			}
		}
		if err := events.Decode(&event); err != nil {
			w.t.Fatalf("watch: %v", err)
		}
		if event.Object.Metadata.ResourceVersion == last {
			return
		}
	}
}

// outcomes are the counters of transcoding.
func (w *updater) outcomes() map[string]float64 {
	w.t.Helper()
	_, metrics, err := fetch(w.t.Context(), w.server, w.client, "/metrics", "")
	if err != nil {
		w.t.Fatal(err)
	}
	counts := map[string]float64{}
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, `millrace_transcode_objects_total{outcome="`); ok {
			outcome, value, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
			if counts[outcome], err = strconv.ParseFloat(value, 64); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return counts
}
