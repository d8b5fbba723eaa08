package many

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	digestObjects = 100_000
	digestWrites  = 1000 // a second
	digestWriters = 64

	// mostDigestCost is the share of one processor that may go into digests and checks.
	mostDigestCost = 0.01
)

// TestDigestCost writes 1,000 times a second to 100,000 objects of three servers over one
// etcd. A processor profile of one of them tells what digests and their checks cost it.
func TestDigestCost(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skip("set " + longVariable + " to run it")
	}
	etcd := harness.StartEtcd(t)
	args := []string{"--server-leases=true", etcd.EtcdServers()}
	first := harness.Start(t, harness.ShortTempDir(t), args...)
	if output, code := harness.Run(t, "fill", "--configmaps="+strconv.Itoa(digestObjects), "--configmap-size=1000", etcd.EtcdServers()); code != 0 {
		t.Fatalf("fill: %s", output)
	}
	for range 2 {
		startOther(t, first, args...)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stop()
	written := write(ctx, t, &writers, first)
	before := written.Load()
	began := time.Now()
	profile := filepath.Join(t.TempDir(), "cpu.pprof")
	resp, err := first.HTTPClient().Get(first.URL + "/debug/pprof/profile?seconds=60")
	check(t, err)
	defer resp.Body.Close()
	file, err := os.Create(profile)
	check(t, err)
	_, err = file.ReadFrom(resp.Body)
	check(t, err)
	check(t, file.Close())
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the profile is answered with %d", resp.StatusCode)
	}
	elapsed := time.Since(began).Seconds()
	rate := float64(written.Load()-before) / elapsed
	output, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-unit=seconds", `-focus=internal/tier/scrub|[dD]igest`, profile).Output()
	check(t, err)
	found := regexp.MustCompile(`Showing nodes accounting for ([0-9.]+)s?, .* of ([0-9.]+)s total`).FindSubmatch(output)
	if found == nil {
		t.Fatalf("the profile cannot be read:\n%s", output)
	}
	seconds, err := strconv.ParseFloat(string(found[1]), 64)
	check(t, err)
	t.Logf("%.0f writes a second: digests and their checks cost %.2f s of %.0f, %.2f %% of a processor; all of the server cost %s s", rate, seconds, elapsed, 100*seconds/elapsed, found[2])
	if seconds == 0 || seconds/elapsed > mostDigestCost {
		t.Errorf("digests cost %.2f s in %.0f s:\n%s", seconds, elapsed, output)
	}
}

// write changes random objects until the context ends, as fast as digestWrites says or the
// machine allows. It counts the writes.
func write(ctx context.Context, t *testing.T, writers *sync.WaitGroup, s *harness.Server) *atomic.Int64 {
	t.Helper()
	config := rest.CopyConfig(s.Config())
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	check(t, err)
	if len(list.Items) < digestObjects {
		t.Fatalf("there are %d objects, want %d", len(list.Items), digestObjects)
	}
	written := &atomic.Int64{}
	for w := range digestWriters {
		writers.Go(func() {
			ticker := time.NewTicker(digestWriters * time.Second / digestWrites)
			defer ticker.Stop()
			for n := w; ; n += digestWriters {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				cm := &list.Items[n*7919%len(list.Items)]
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"written":"%d"}}}`, n)
				if _, err := client.CoreV1().ConfigMaps(cm.Namespace).Patch(ctx, cm.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
					written.Add(1)
				}
			}
		})
	}
	return written
}
