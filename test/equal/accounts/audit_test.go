package accounts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// volatileParts match what differs between any two servers.
var volatileParts = regexp.MustCompile(`resourceVersion=[1-9][0-9]*|continue=[^&"]*|"resourceVersion":"[0-9]+"|"uid":"[0-9a-f-]{36}"|"(?:creationTimestamp|time)":"[^"]*"|X509SHA256=[0-9a-f]*|current: [0-9]+`)

// latencyAnnotations is the prefix of annotations that requests of more than half a
// second have.
const latencyAnnotations = "apiserver.latency.k8s.io/"

// readAudit returns the events of each request, without times.
func readAudit(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	requests := map[string][]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event map[string]any
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		id, _ := event["auditID"].(string)
		requests[id] = append(requests[id], printEvent(t, event))
	}
	return requests
}

// printEvent prints an event without times, one field a line.
func printEvent(t *testing.T, event map[string]any) string {
	var b strings.Builder
	for _, field := range slices.Sorted(maps.Keys(event)) {
		value := event[field]
		if field == "requestReceivedTimestamp" || field == "stageTimestamp" {
			continue
		}
		if annotations, ok := value.(map[string]any); ok && field == "annotations" {
			maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, latencyAnnotations) })
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.ReplaceAll(string(text), `\u0026`, "&")
		if late := strings.Contains(fmt.Sprint(event["requestURI"]), "timeout=1ns"); late && (field == "responseStatus" || field == "objectRef") {
			continue // after the client got its 504, it is chance how far the request came
		}
		fmt.Fprintf(&b, "%s %s\n", field, volatileParts.ReplaceAllString(plain, "#"))
	}
	return b.String()
}

// compareAudit compares the audit events of the load's requests.
func compareAudit(t *testing.T, ours, theirs string) {
	a, b := readAudit(t, ours), readAudit(t, theirs)
	n := 0
	for _, id := range sortedKeys(a, b) {
		if !strings.HasPrefix(id, idPrefix) {
			continue
		}
		n++
		if len(a[id]) != len(b[id]) {
			t.Errorf("%s has %d events, not %d:\n%snot\n%s", id, len(a[id]), len(b[id]), strings.Join(a[id], ""), strings.Join(b[id], ""))
			continue
		}
		for i, event := range a[id] {
			if event != b[id][i] {
				t.Errorf("event %d of %s:\n%snot\n%s", i, id, event, b[id][i])
			}
		}
	}
	if n == 0 {
		t.Error("the audit log has no request of the load")
	}
	t.Log(fmt.Sprint(n, " requests compared"))
}
