package accounts

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/test/support/harness"
)

const (
	// never is a query for a version that etcd does not reach. The read waits 3 s for it.
	never       = "?resourceVersion=999999999&resourceVersionMatch=NotOlderThan"
	convertedV2 = "/apis/accounts.example/v2/converted"
	// conversions are the objects that the webhook converts, and conversionTime is how long
	// it takes.
	conversions    = 8
	conversionTime = time.Second
)

const convertedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"converted.accounts.example"},
"spec":{"group":"accounts.example","scope":"Cluster","names":{"plural":"converted","singular":"one","kind":"Converted","listKind":"ConvertedList"},
"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// convertSlowly is a conversion webhook that takes its time.
func convertSlowly(w http.ResponseWriter, req *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	<-time.After(conversionTime)
	review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		changed := strings.Replace(string(raw.Raw), "accounts.example/v1", "accounts.example/v2", 1)
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: []byte(changed)})
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(&review)
}

// cpuTest is a server whose accounts are compared with the CPU that its process uses.
type cpuTest struct {
	t      *testing.T
	s      *harness.Server
	client *http.Client
}

// begin sends a GET and returns its answer, of which only the header was read.
func (c *cpuTest) begin(ctx context.Context, target, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.s.URL+target, nil)
	if err != nil {
		return nil, err
	}
	media, coding, _ := strings.Cut(accept, " ")
	req.Header.Set("Accept", media)
	if coding != "" {
		req.Header.Set("Accept-Encoding", coding)
	}
	return c.client.Do(req)
}

// get sends a GET and reads its answer, which must have a status.
func (c *cpuTest) get(status int, target, accept string) []byte {
	resp, err := c.begin(context.Background(), target, accept)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		c.t.Errorf("%s: %s: %.300s, %v", target, resp.Status, body, err)
	}
	return body
}

// fill defines what the webhook converts, and puts objects into etcd: some of those, many
// ConfigMaps, and a few large Secrets.
func (c *cpuTest) fill() {
	hook := httptest.NewTLSServer(http.HandlerFunc(convertSlowly))
	c.t.Cleanup(hook.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	definition := fmt.Sprintf(convertedDefinition, hook.URL, base64.StdEncoding.EncodeToString(certificate))
	resp, err := c.client.Post(c.s.URL+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", strings.NewReader(definition))
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusCreated {
		c.t.Fatal(resp.Status)
	}
	etcd := c.s.EtcdClient()
	put := func(prefix, kind string, n int, fields string) {
		for from := 0; from < n; from += 50 {
			var ops []clientv3.Op
			for i := from; i < min(from+50, n); i++ {
				object := fmt.Sprintf(`{%s,"metadata":{"name":"o-%d","namespace":"default","uid":"%d","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"a%d"}},%s}`, kind, i, i, i%10, fields)
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/%s/o-%d", prefix, i), object))
			}
			if _, err := etcd.Txn(context.Background()).Then(ops...).Commit(); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	put("accounts.example/converted", `"apiVersion":"accounts.example/v1","kind":"Converted"`, conversions, `"spec":{}`)
	put("configmaps/default", `"apiVersion":"v1","kind":"ConfigMap"`, 5000, `"data":{"a":"b"}`)
	large := base64.StdEncoding.EncodeToString(make([]byte, 300_000))
	for i := range 60 {
		put(fmt.Sprint("secrets/large-", i), `"apiVersion":"v1","kind":"Secret"`, 1, fmt.Sprintf(`"data":{"a":%q}`, large))
	}
	waitServed(c.t, func() (*http.Response, error) {
		return c.begin(context.Background(), "/apis/accounts.example/v1/converted", "application/json")
	})
}

// cpuTime is CPU time in seconds: of all requests by the report of lists and by the metrics,
// and of the process.
type cpuTime struct{ report, metrics, process float64 }

func (c cpuTime) minus(d cpuTime) cpuTime {
	return cpuTime{c.report - d.report, c.metrics - d.metrics, c.process - d.process}
}

func (c *cpuTest) read() (now cpuTime, report serverreport.ListsReport) {
	if err := json.Unmarshal(c.get(http.StatusOK, "/debug/millrace/lists", ""), &report); err != nil {
		c.t.Fatal(err)
	}
	m, err := parse(strings.NewReader(string(c.get(http.StatusOK, "/metrics", ""))))
	if err != nil {
		c.t.Fatal(err)
	}
	now = cpuTime{report: report.Total.CPU, process: m.series["process_cpu_seconds_total"]}
	for name, value := range m.series {
		if strings.HasPrefix(name, "millrace_list_cost_cpu_seconds_total") {
			now.metrics += value
		}
	}
	return now, report
}

// wait sends reads that mostly wait, in every way in which a read can.
func (c *cpuTest) wait() {
	var slow []io.ReadCloser
	for range 5 {
		resp, err := c.begin(context.Background(), "/api/v1/secrets", "application/json")
		if err != nil {
			c.t.Fatal(err)
		}
		slow = append(slow, resp.Body)
	}
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { c.get(http.StatusGatewayTimeout, secrets+never, "application/json") })
	}
	for range 10 {
		wg.Go(func() { c.get(http.StatusGatewayTimeout, configMaps+"/o-1"+never, "application/json") })
		wg.Go(func() { c.get(http.StatusGatewayTimeout, limitRanges+never, "application/yaml") })
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if resp, err := c.begin(ctx, controllers+never, "application/json"); err == nil {
				resp.Body.Close()
				c.t.Error("a cancelled read was answered")
			}
		})
		wg.Go(func() { c.get(http.StatusOK, configMaps, "application/json") })
		wg.Go(func() { c.get(http.StatusOK, configMaps+"/o-2", "application/json") })
		wg.Go(func() { c.get(http.StatusOK, templates, "application/yaml") })
	}
	for i := range conversions {
		wg.Go(func() { c.get(http.StatusOK, fmt.Sprintf("%s/o-%d", convertedV2, i), "application/json") })
		wg.Go(func() { c.get(http.StatusOK, convertedV2, "application/yaml") })
	}
	wg.Wait()
	for _, body := range slow {
		if _, err := io.Copy(io.Discard, body); err != nil {
			c.t.Error(err)
		}
		_ = body.Close()
	}
}

// compute sends reads that wait for nothing, of many shapes.
func (c *cpuTest) compute() {
	for _, accept := range []string{"application/json", protobuf, table, metadata, "application/yaml", "application/json gzip", protobuf + " zstd"} {
		for _, query := range []string{"", "&labelSelector=app!%3Da1", "&labelSelector=app+notin+(a2,a3)", "&pretty=1"} {
			c.get(http.StatusOK, configMaps+"?resourceVersion=0"+query, accept)
		}
	}
}

// TestWaitingIsNoCPU compares the accounts with the CPU that the process used: while reads
// compute, the accounts have most of it, and while reads wait, no more than it.
func TestWaitingIsNoCPU(t *testing.T) {
	s := harness.Start(t, harness.ShortTempDir(t))
	c := &cpuTest{t: t, s: s, client: s.HTTPClient()}
	c.fill()
	before, _ := c.read()
	c.compute()
	computed, _ := c.read()
	used := computed.minus(before)
	t.Logf("while reads computed: %+v", used)
	if least, most := used.process/2, 1.2*used.process; used.report < least || used.report > most || used.metrics < least || used.metrics > most {
		t.Error("while reads computed, the accounts are not about what the process used")
	}
	c.wait()
	waited, report := c.read()
	used = waited.minus(computed)
	t.Logf("while reads waited: %+v", used)
	if most := 1.2 * used.process; used.report > most || used.metrics > most {
		t.Error("while reads waited, the accounts are more than what the process used")
	}
	for i := range report.Shapes {
		s := &report.Shapes[i]
		if waits := s.Revision == "at least" || s.Resource == "converted.accounts.example" && s.Version == "v2"; waits && s.CPU > s.Seconds/20 {
			t.Errorf("a shape that waits: %+v", s)
		}
	}
}
