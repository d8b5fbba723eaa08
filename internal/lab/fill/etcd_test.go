package fill

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs an etcd server and returns its client URL. The server syncs its
// writes to disk only in benchmarks.
func startEtcd(t testing.TB) string {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.LogLevel = "panic"
	_, benchmark := t.(*testing.B)
	cfg.UnsafeNoFsync = !benchmark
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.QuotaBackendBytes = 8 << 30
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = local, local
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = local, local
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(20 * time.Second):
		t.Fatal("etcd did not become ready")
	}
	return "http://" + server.Clients[0].Addr().String()
}

func etcdClient(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := newEtcdClient(EtcdConfig{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func runFill(t testing.TB, cfg Config) Summary {
	t.Helper()
	filler, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := filler.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

func countKeys(t testing.TB, client *clientv3.Client) int64 {
	t.Helper()
	resp, err := client.Get(context.Background(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Count
}

func TestFillInEtcd(t *testing.T) {
	endpoint := startEtcd(t)
	client := etcdClient(t, endpoint)
	ctx := context.Background()
	shape := Shape{Seed: 5, Nodes: 3, Namespaces: 2, Pods: 730, Secrets: 45, ConfigMaps: 12, ConfigMapSize: 300_000, Workloads: true, Leases: true, Events: 30}
	direct := EtcdConfig{Endpoints: []string{endpoint}}
	total := int64(3 + 2*2 + 730 + 45 + 12 + 4*37 + 3 + 30)

	summary := runFill(t, Config{Shape: shape, Etcd: direct})
	if summary.Total().Done != total || summary.Total().Skipped != 0 || countKeys(t, client) != total {
		t.Fatalf("filled %+v, etcd has %d keys, want %d", summary, countKeys(t, client), total)
	}
	g := mustGenerator(t, shape)
	key, _ := StorageKey("/registry", g.Pod(729))
	got, err := client.Get(ctx, key)
	if err != nil || len(got.Kvs) != 1 || !bytes.Equal(got.Kvs[0].Value, mustEncode(t, g.Pod(729))) {
		t.Fatalf("pod 729 differs from the generator's: %v %v", got, err)
	}

	// The second run has 20 more pods, and one pod was deleted. Only these 21 are
	// written.
	if _, err := client.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	shape.Pods += 20
	summary = runFill(t, Config{Shape: shape, Etcd: direct})
	if want := (Count{Done: 21, Skipped: 729}); summary.Kinds[KindPod].Done != want.Done || summary.Kinds[KindPod].Skipped != want.Skipped {
		t.Fatalf("second fill wrote %+v, want %+v", summary.Kinds[KindPod], want)
	}
}

func TestStopAndUnreachableEtcd(t *testing.T) {
	filler, err := New(Config{Shape: Shape{Pods: 10}, Etcd: EtcdConfig{Endpoints: []string{"127.0.0.1:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped by the test")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, stopped)
	defer cancel()
	_, err = filler.Run(ctx)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "check etcd-servers") {
		t.Errorf("unreachable etcd gave %v", err)
	}

	endpoint := startEtcd(t)
	ctx, stop := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, stopped)
	defer stop()
	filler, err = New(Config{
		Shape: Shape{Pods: 1_000_000, PodSize: 100_000}, Etcd: EtcdConfig{Endpoints: []string{endpoint}},
		Workers: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	summary, err := filler.Run(ctx)
	if !errors.Is(err, stopped) || summary.Kinds[KindPod].Done >= 1_000_000 {
		t.Errorf("stopping gave %v, %v", summary, err)
	}
}

func TestCommand(t *testing.T) {
	endpoint := startEtcd(t)
	run := func(args ...string) (string, string, error) {
		var out, progress bytes.Buffer
		cmd := NewCommand(Streams{Out: &out, Err: &progress})
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		return out.String(), progress.String(), err
	}
	t.Setenv("KUBECONFIG", "")
	out, _, err := run("--pods", "40", "--pod-size", "17KB", "--etcd-servers", endpoint)
	if err != nil || !strings.HasPrefix(out, "filled 1 namespace, 1 service account, 1 node, 40 pods in ") {
		t.Errorf("fill gave %q, %v", out, err)
	}
	nowhere := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct{ args, want string }{
		{"", "nothing to write"},
		{"--pods=-1", "pods is -1"},
		{"--pods=1 --pod-size=10B", "smallest possible"},
		{"--pods=1 --pod-size=10parsec", "4000, 4KB"},
		{"--pods=1 --workers=-4", "workers is -4"},
		{"--pods=1 --data-dir=" + nowhere, "no millrace data directory at " + nowhere},
		{"--pods=1 --kubeconfig=a --etcd-servers=b", "choose one"},
		{"--pods=1 --context=a --etcd-servers=b", "choose one"},
		{"--delete --etcd-servers=b", "deleted through an API server"},
		{"--pods=1 --etcd-cafile=a", "add etcd-servers"},
		{"--pods=1 --etcd-servers=https://127.0.0.1:1 --etcd-cafile=" + nowhere, "load etcd certificates"},
		{"--pods=1 --timeout=-1s", "timeout is -1s"},
	} {
		out, _, err := run(strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%q gave %q, %v; want an error with %q", c.args, out, err, c.want)
		}
	}
}

func TestProgressLines(t *testing.T) {
	start := time.Unix(0, 0)
	p := progress{verb: "filling", kind: KindConfigMap, total: 10_000, start: start}
	p.counter.add(Count{Done: 2000, Skipped: 500, Bytes: 5_000_000})
	want := "filling config maps: 2,500 of 10,000 (25 %), 500/s, 5.00 MB, 15s left"
	if got := p.text(start.Add(5 * time.Second)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func BenchmarkFillEtcd(b *testing.B) {
	endpoint := startEtcd(b)
	b.ResetTimer()
	for i := range b.N {
		summary := runFill(b, Config{
			Shape: Shape{Seed: uint64(i), Pods: 100_000},
			Etcd:  EtcdConfig{Endpoints: []string{endpoint}},
		})
		b.ReportMetric(float64(summary.Total().Done)/summary.Elapsed.Seconds(), "objects/s")
	}
}
