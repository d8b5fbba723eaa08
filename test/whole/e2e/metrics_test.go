package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	client := s.HTTPClient()
	get := func(path string) string {
		resp, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	get("/api/v1/namespaces")
	wanted := []string{
		`millrace_feed_healthy{etcd="unix://`,
		`millrace_feed_revision{etcd="unix://`,
		`millrace_cache_objects{group="",resource="namespaces"} 4`,
		`millrace_cache_stored_bytes{group="",resource="namespaces"}`,
		`millrace_read_requests_total{verb="LIST"}`,
		"millrace_wire_cache_bytes ",
		`millrace_transcode_objects_total{outcome="compared"}`,
		`apiserver_storage_size_bytes{storage_cluster_id="etcd-0"}`,
		"millrace_wire_cache_limit_bytes ",
		`apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="namespaces",scope="cluster",subresource="",verb="LIST",version="v1"}`,
	}
	eventually(t, func(context.Context) error { // the server makes its namespaces when it is ready
		metrics := get("/metrics")
		for _, want := range wanted {
			if !strings.Contains(metrics, want) {
				return fmt.Errorf("/metrics lacks %s", want)
			}
		}
		if strings.Contains(metrics, `millrace_transcode_objects_total{outcome="transcoded"} 0`) {
			return errors.New("no object was transcoded")
		}
		return nil
	})
}
