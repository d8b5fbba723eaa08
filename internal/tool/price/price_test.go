package price

import (
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

// measured names parts of old reports of bench. Reports in docs/bench are replaced now and then,
// and then have other figures.
var measured = Reports{List: "testdata/list.json", Etcd: "testdata/list-without-cache.json", Watch: "testdata/watch.json"}

// derivePrices returns the prices of the measured reports.
func derivePrices(t *testing.T) *List {
	t.Helper()
	l, err := Derive(measured, &List{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDerive(t *testing.T) {
	want, err := Read("testdata/prices.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := derivePrices(t); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDefault checks that the list in the binary has all prices.
func TestDefault(t *testing.T) {
	l, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range l.servers() {
		if s.RequestMicros <= 0 || s.ScannedMicros <= 0 || s.WatchMicros <= 0 || s.EventMicros <= 0 || s.InitialByteNanos <= 0 || len(s.ByteNanos) != 3 {
			t.Errorf("%s lacks a price: %+v", name, s)
		}
	}
}

// TestPaced checks that a report of clients that wait sets the price of a request alone.
func TestPaced(t *testing.T) {
	file := t.TempDir() + "/paced.json"
	report := `{"servers": [{"name": "millrace", "results": [{"workload": "pod-get", "bytes": 1000, "server": {"cpuMillis": 0.4}}]},
		{"name": "kubernetes", "results": [{"workload": "pod-get", "bytes": 1000, "server": {"cpuMillis": 0.8}}]}]}`
	if err := os.WriteFile(file, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	paced := measured
	paced.Paced = file
	got, err := Derive(paced, &List{})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range got.servers() {
		hot := derivePrices(t).servers()[name]
		if request := map[string]float64{millraceName: 399, stockName: 791}[name]; math.Abs(s.RequestMicros-request) > 1 {
			t.Errorf("%s: a request is %v µs, want %v", name, s.RequestMicros, request)
		}
		if s.RequestMicros = hot.RequestMicros; !reflect.DeepEqual(s, hot) {
			t.Errorf("%s: got %+v, want but for the request %+v", name, s, hot)
		}
	}
	if len(got.Sources) != 4 || got.Sources[3] != file {
		t.Errorf("sources %q", got.Sources)
	}
}

// TestOtherSizes compares prices with requests from which they are not derived, measured on the
// same machine. The first two requests are for 100,000 pods of 17 KB, the others are of other
// workloads.
func TestOtherSizes(t *testing.T) {
	l := derivePrices(t)
	for _, c := range []struct {
		name   string
		work   Work
		millis float64
		off    float64
	}{
		{"all pods, JSON", Work{Requests: 1, Bytes: 1.70e9, Encoding: JSON}, 15_340, 0.2},
		{"one label of 500", Work{Requests: 1, Scanned: 100_000, Bytes: 3.4e6, Encoding: JSON}, 129, 0.2},
		{"all nodes, JSON", Work{Requests: 1, Bytes: 5_112_379, Encoding: JSON}, 41.7, 0.2},
		{"pods of one node", Work{Requests: 1, Bytes: 44_749, Scanned: 10, Encoding: JSON}, 0.844, 0.2},
		{"pods of one label from etcd", Work{Requests: 1, Bytes: 44_734, EtcdBytes: 22_296_933, EtcdSentBytes: 44_734, Encoding: JSON}, 221, 0.2},
		{"a page of 500 from etcd", Work{Requests: 1, Bytes: 2_228_059, EtcdBytes: 2_228_059, EtcdSentBytes: 2_228_059, Encoding: JSON}, 57, 0.2},
		{"a page of 500", Work{Requests: 1, Bytes: 2_230_652, Scanned: 10_000, Encoding: JSON}, 27.58, 0.2},
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
