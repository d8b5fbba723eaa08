package read_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"github.com/millrace/millrace/internal/tier/read"
)

const (
	listPath       = "/api/v1/configmaps"
	listOnePath    = "/api/v1/namespaces/one/configmaps"
	objectPath     = "/api/v1/namespaces/one/configmaps/a"
	protobufAccept = "application/vnd.kubernetes.protobuf"
	tableAccept    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	tablesAccept   = tableAccept + ",application/json;as=Table;g=meta.k8s.io;v=v1beta1,application/json"
	metadataAccept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

	metadataListAccept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// TestRequests has for each request the reason why it is passed on. "" means that the tier
// answers it.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		target, accept, reason string
	}{
		{listPath, "", ""}, {listOnePath, "", ""}, {objectPath, "", ""},
		{listPath, "application/json", ""}, {listPath, protobufAccept, ""}, {listPath, protobufAccept + ",application/json", ""}, {listPath, "*/*", ""},
		{listPath, "text/plain, */*", ""}, {listPath + "?pretty=1", "", ""}, {listPath + "?unknown=1&x", "", ""}, {listPath + "?", "", ""},
		{listPath + "?resourceVersion=", "", ""}, {listPath + "?resourceVersion=0", "", ""}, {listPath + "?resourceVersion=100", "", ""}, {objectPath + "?resourceVersion=7", "", ""},
		{"/api/v1/namespaces/nowhere/configmaps", "", ""},

		{"/api/v1/pods", "", "resource"}, {"/apis/apps/v1/deployments", "", "resource"}, {objectPath + "/status", "", "resource"}, {"/api/v2/configmaps", "", "resource"},
		{listPath + "/", "", "path"}, {listOnePath + "/", "", "path"}, {objectPath + "/", "", "path"}, {"/api/v1/namespaces/one//configmaps", "", "resource"},
		{listPath + "?limit=1", "", ""}, {listPath + "?limit=-1", "", ""}, {listPath + "?labelSelector=name%3Da", "", ""}, {listPath + "?labelSelector=!name", "", ""},
		{listPath + "?fieldSelector=metadata.name%3Da", "", ""}, {listOnePath + "?fieldSelector=metadata.name%3Da", "", ""}, {listPath + "?fieldSelector=metadata.namespace%3Done", "", ""},
		{listPath + "?resourceVersion=1&resourceVersionMatch=Exact", "", ""}, {listPath + "?timeoutSeconds=1", "", ""}, {objectPath + "?limit=1", "", ""},
		{listPath + "?includeObject=None", "", ""}, {listPath + "?watch=false", "", ""}, {listPath + "?resourceVersion=1&resourceVersion=2", "", ""},
		{listPath + "?limit=a", "", "parameter"}, {listPath + "?limit=", "", "parameter"}, {listPath + "?labelSelector=%3D", "", "parameter"}, {listPath + "?fieldSelector=data%3Da", "", "parameter"},
		{listPath + "?resourceVersionMatch=Exact", "", "parameter"}, {listPath + "?sendInitialEvents=false", "", "parameter"}, {listPath + "?shardSelector=x", "", ""},
		{listPath + "?a=%zz", "", "parameter"}, {listPath + "?a;b", "", "parameter"}, {objectPath + "?export=true", "", "parameter"}, {objectPath + "?resourceVersion=1&resourceVersion=2", "", "parameter"},
		{listPath + "?resourceVersion=101", "", "history"}, {objectPath + "?resourceVersion=101", "", "history"},
		{listPath, tableAccept, ""}, {listPath, tablesAccept, ""}, {objectPath, tableAccept, ""}, {listPath + "?includeObject=Object", tableAccept, ""}, {listPath + "?includeObject=x", tableAccept, "parameter"},
		{listPath, metadataListAccept, ""}, {objectPath, metadataAccept, ""}, {listPath, protobufAccept + metadataListAccept[len("application/json"):], ""},
		{listPath, metadataAccept, "accept"}, {objectPath, metadataListAccept, "accept"}, {listPath + "?pretty=1", tableAccept, "accept"},
		{listPath, "application/json;as=Other;g=meta.k8s.io;v=v1", "accept"}, {listPath, "application/json;as=Table;g=meta.k8s.io;v=v2", "accept"},
		{listPath, "application/json;q=0.5", ""}, {listPath, "application/json;q=0.5," + protobufAccept, ""},
		{listPath, "application/yaml", "accept"}, {listPath, "text/html", "accept"}, {listPath, protobufAccept + tableAccept[len("application/json"):], "accept"},
		{listPath, "application/*", "accept"}, {listPath, "*", "accept"}, {listPath, "application/JSON", "accept"}, {listPath, ",", "accept"},
		{"/api/v1/configmaps/a", "", "path"}, {"/api/v1/namespaces/./configmaps/a", "", "path"},
		{listPath + "?watch=1", "", "path"}, {"/api/v1/watch/configmaps", "", "path"}, {"/version", "", "not-read"}, {"/api/v1", "", "not-read"},
	} {
		t.Run(c.target+" "+c.accept, func(t *testing.T) {
			env := newTestTier(t)
			env.load(t, "one/a", "one/b", "two/a")
			header := http.Header{}
			if c.accept != "" {
				header.Set("Accept", c.accept)
			}
			w := env.send(t, http.MethodGet, c.target, header)
			passed := w.Code == passedOnStatus
			if passed != (c.reason != "") {
				t.Fatalf("status %d, want passed on: %v", w.Code, c.reason != "")
			}
			reasons := env.reasons(t)
			switch c.reason {
			case "":
				if w.Code != http.StatusOK || reasons["GET"]+reasons["LIST"] != 1 {
					t.Errorf("status %d, counted %v", w.Code, reasons)
				}
			case "not-read":
				if len(reasons) != 0 {
					t.Errorf("counted %v", reasons)
				}
			default:
				if reasons[c.reason] != 1 || len(reasons) != 1 {
					t.Errorf("counted %v, want %s", reasons, c.reason)
				}
			}
		})
	}
}

func TestOtherMethodsAreNotReads(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a")
	for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		if w := env.send(t, method, objectPath, nil); w.Code != passedOnStatus {
			t.Errorf("%s: status %d", method, w.Code)
		}
	}
	if reasons := env.reasons(t); len(reasons) > 0 {
		t.Errorf("counted %v", reasons)
	}
}

func TestRequestWithoutInformation(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a")
	// The context has no RequestInfo, as if the filter that adds it were missing.
	w := env.send(t, http.MethodGet, objectPath, nil, func(context.Context) context.Context { return context.Background() })
	if w.Code != passedOnStatus {
		t.Errorf("status %d", w.Code)
	}
}

func TestVerbsThatAreNotInstalled(t *testing.T) {
	env := newTestTier(t, func(c *read.RouteConfig) { c.Gets = false })
	env.load(t, "one/a")
	if w := env.send(t, http.MethodGet, objectPath, nil); w.Code != passedOnStatus {
		t.Errorf("GET: status %d", w.Code)
	}
	if w := env.send(t, http.MethodGet, listPath, nil); w.Code != http.StatusOK {
		t.Errorf("LIST: status %d", w.Code)
	}
}

func TestOpaqueObjectsArePassedOn(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a", "one/irregular")
	for target, status := range map[string]int{
		objectPath: http.StatusOK, "/api/v1/namespaces/one/configmaps/irregular": passedOnStatus, listOnePath: passedOnStatus, listPath: passedOnStatus,
	} {
		if w := env.send(t, http.MethodGet, target, nil); w.Code != status {
			t.Errorf("%s: status %d, want %d", target, w.Code, status)
		}
	}
	if n := env.reasons(t)["odd-object"]; n != 3 {
		t.Errorf("%v odd objects counted, want 3", n)
	}
}

func TestEncodersThatFailArePassedOn(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a", "one/broken")
	for _, target := range []string{listPath, "/api/v1/namespaces/one/configmaps/broken"} {
		for _, encoding := range []string{"", "gzip"} {
			w := env.send(t, http.MethodGet, target, http.Header{"Accept-Encoding": {encoding}})
			if w.Code != passedOnStatus || w.Body.Len() > 0 || w.Header().Get("Content-Encoding") != "" {
				t.Errorf("%s: status %d, headers %v, %d bytes", target, w.Code, w.Header(), w.Body.Len())
			}
		}
	}
	if n := env.reasons(t)["encoding"]; n != 4 {
		t.Errorf("%v counted, want 4", n)
	}
}

// TestEncodersThatFailLate checks that an answer that cannot be finished is not
// taken for a whole one.
func TestEncodersThatFailLate(t *testing.T) {
	env := newTestTier(t)
	keys := []string{"two/broken"}
	for i := range 2000 {
		keys = append(keys, fmt.Sprintf("one/%04d", i))
	}
	slices.Sort(keys)
	env.load(t, keys...)
	defer func() {
		if err := recover(); err != http.ErrAbortHandler {
			t.Errorf("the connection is not cut: %v", err)
		}
	}()
	env.send(t, http.MethodGet, listPath, nil)
}

// TestErrors checks that errors of storage are answered in Kubernetes' words.
func TestErrors(t *testing.T) {
	env := newTestTier(t)
	for _, target := range []string{listPath + "?resourceVersion=0", objectPath + "?resourceVersion=0"} {
		if w := env.send(t, http.MethodGet, target, nil); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s before the cache is loaded: status %d", target, w.Code)
		}
	}
	env.load(t, "one/a")
	w := env.send(t, http.MethodGet, "/api/v1/namespaces/one/configmaps/absent", nil)
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `configmaps \"absent\" not found`) {
		t.Errorf("absent object: status %d, %s", w.Code, w.Body)
	}
}

func TestAuditedBodiesArePassedOn(t *testing.T) {
	for level, status := range map[auditinternal.Level]int{
		auditinternal.LevelMetadata: http.StatusOK, auditinternal.LevelRequest: http.StatusOK, auditinternal.LevelRequestResponse: passedOnStatus,
	} {
		env := newTestTier(t)
		env.load(t, "one/a")
		w := env.send(t, http.MethodGet, listPath, nil, func(ctx context.Context) context.Context {
			ctx = audit.WithAuditContext(ctx)
			if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: level}, nil); err != nil {
				t.Fatal(err)
			}
			return ctx
		})
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", level, w.Code, status)
		}
	}
}

type warningRecorder []string

func (w *warningRecorder) AddWarning(_, text string) { *w = append(*w, text) }

func TestWarnings(t *testing.T) {
	env := newTestTier(t, func(c *read.RouteConfig) { c.Warning = "it goes" })
	env.load(t, "one/a")
	for _, target := range []string{listPath, objectPath} {
		var got warningRecorder
		env.send(t, http.MethodGet, target, nil, func(ctx context.Context) context.Context { return warning.WithWarningRecorder(ctx, &got) })
		if len(got) != 1 || got[0] != "it goes" {
			t.Errorf("%s: warnings %q", target, got)
		}
	}
	// The handler that answers a request adds the warning.
	var got warningRecorder
	env.send(t, http.MethodGet, objectPath+"?export=1", nil, func(ctx context.Context) context.Context { return warning.WithWarningRecorder(ctx, &got) })
	if len(got) != 0 {
		t.Errorf("warnings of a request that was passed on: %q", got)
	}
}

func TestUnconfirmedReads(t *testing.T) {
	env := newTestTier(t, func(c *read.RouteConfig) { c.Warning = "it goes" })
	env.load(t, "one/a")
	env.etcd.err = errors.New("no leader")
	var got warningRecorder
	w := env.send(t, http.MethodGet, listPath, nil, func(ctx context.Context) context.Context { return warning.WithWarningRecorder(ctx, &got) })
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "not consistent: no leader") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if len(got) != 1 {
		t.Errorf("warnings %q", got)
	}
	if w := env.send(t, http.MethodGet, listPath+"?resourceVersion=0", nil); w.Code != http.StatusOK {
		t.Errorf("any version: status %d", w.Code)
	}
}

func TestAnswers(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a", "one/b", "one/large", "two/a")
	w := env.send(t, http.MethodGet, listOnePath, nil)
	var got corev1.ConfigMapList
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 3 || got.ResourceVersion != "100" || got.Items[1].ResourceVersion != "2" || got.Kind != "ConfigMapList" {
		t.Errorf("list of %d at %s", len(got.Items), got.ResourceVersion)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
}

func TestCompression(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a", "one/large")
	off := newTestTier(t, func(c *read.RouteConfig) { c.Shared.Compress = false })
	off.load(t, "one/a", "one/large")
	large := "/api/v1/namespaces/one/configmaps/large"
	for _, c := range []struct {
		tier             *testTier
		target, encoding string
		compressed       bool
	}{
		{env, listPath, "gzip", true}, {env, large, "gzip", true}, {env, listPath, "deflate, gzip", true}, {env, listPath, " gzip ", true},
		{env, objectPath, "gzip", false}, {env, listPath, "", false}, {env, listPath, "*", false},
		{off, listPath, "gzip", false}, {off, large, "gzip", false},
	} {
		w := c.tier.send(t, http.MethodGet, c.target, http.Header{"Accept-Encoding": {c.encoding}})
		compressed := w.Header().Get("Content-Encoding") == "gzip"
		if compressed != c.compressed || (w.Header().Get("Vary") == "Accept-Encoding") != c.compressed {
			t.Errorf("%s with %q: headers %v", c.target, c.encoding, w.Header())
			continue
		}
		want := c.tier.send(t, http.MethodGet, c.target, nil).Body.String()
		body := io.Reader(w.Body)
		if compressed {
			var err error
			if body, err = gzip.NewReader(w.Body); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != want {
			t.Errorf("%s with %q: %d bytes, want %d, %v", c.target, c.encoding, len(got), len(want), err)
		}
	}
}

// goneClient is a client that went away.
type goneClient struct {
	http.ResponseWriter
	writes int
}

var errGone = errors.New("gone")

func (g *goneClient) Write([]byte) (int, error) { g.writes++; return 0, errGone }

func TestClientsThatGoAway(t *testing.T) {
	env := newTestTier(t)
	env.load(t, "one/a", "one/b")
	inner := env.handler
	client := &goneClient{}
	env.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		client.ResponseWriter = w
		inner.ServeHTTP(client, req)
	})
	if w := env.send(t, http.MethodGet, listPath, nil); w.Code != http.StatusOK || client.writes != 1 {
		t.Errorf("status %d after %d writes: not for the handler behind to answer", w.Code, client.writes)
	}
}
