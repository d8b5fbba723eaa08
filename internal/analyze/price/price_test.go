package price

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write prices.json anew")

const bench = "../../../docs/bench/"

// reports are those that prices.json is derived from.
var reports = Reports{List: bench + "list.json", Etcd: bench + "list-without-cache.json", Watch: bench + "watch-1.37.json"}

func TestEmbeddedListIsDerivedFromReports(t *testing.T) {
	l, err := Derive(reports, &List{})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range l.Sources {
		l.Sources[i] = strings.TrimPrefix(name, "../../../")
	}
	if *update {
		data, _ := json.MarshalIndent(l, "", "  ")
		if err := os.WriteFile("prices.json", append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, l) {
		t.Errorf("prices.json is not what docs/bench says: run go test ./internal/analyze/price -update")
	}
}

// TestOtherSizes compares prices with requests that they are not derived from: the first
// two of 100,000 pods of 17 KB (docs/bench/list.md), the others of other workloads.
func TestOtherSizes(t *testing.T) {
	l, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		work   Work
		millis float64
		off    float64
	}{
		{"all pods, JSON", Work{Requests: 1, Bytes: 1.70e9, Form: JSON}, 15_340, 0.2},
		{"one label of 500", Work{Requests: 1, Scanned: 100_000, Bytes: 3.4e6, Form: JSON}, 129, 0.2},
		{"all nodes, JSON", Work{Requests: 1, Bytes: 5_112_379, Form: JSON}, 41.7, 0.2},
		{"pods of one node", Work{Requests: 1, Bytes: 44_749, Scanned: 10, Form: JSON}, 0.844, 0.2},
		{"pods of one label from etcd", Work{Requests: 1, Bytes: 44_734, EtcdBytes: 22_296_933, EtcdSentBytes: 44_734, Form: JSON}, 221, 0.2},
		{"a page of 500 from etcd", Work{Requests: 1, Bytes: 2_228_059, EtcdBytes: 2_228_059, EtcdSentBytes: 2_228_059, Form: JSON}, 57, 0.2},
		{"a page of 500", Work{Requests: 1, Bytes: 2_230_652, Scanned: 10_000, Form: JSON}, 27.58, 0.2},
	} {
		got := 1000 * l.Stock.CPU(&c.work)
		if math.Abs(got/c.millis-1) > c.off {
			t.Errorf("%s: the price is %.3g ms, measured were %.3g", c.name, got, c.millis)
		}
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
	for _, text := range []string{`{"servers":[]}`, `{}`, `x`} {
		file := t.TempDir() + "/p.json"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestDeriveNamesTheMissingWorkload(t *testing.T) {
	report := `{"servers": [{"name": "millrace", "results": [
		{"workload": "pods-json", "requests": 1, "bytes": 9, "server": {"cpuMillis": 3}},
		{"workload": "pods-protobuf", "requests": 1, "bytes": 5, "server": {"cpuMillis": 2}}
	]}]}`
	file := t.TempDir() + "/list.json"
	if err := os.WriteFile(file, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Derive(Reports{List: file}, &List{}); err == nil || !strings.Contains(err.Error(), "pods-by-label") {
		t.Errorf("got %v", err)
	}
}
