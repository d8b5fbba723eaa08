package etcdserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
)

// TestDowngrades prepares the data for the etcd one minor version older, through
// the socket, as etcdctl does. The data is then in the older form, also after a restart.
func TestDowngrades(t *testing.T) {
	t.Parallel()
	var own, older string
	for i, v := range version.AllVersions {
		if strings.HasPrefix(version.Version, fmt.Sprintf("%d.%d.", v.Major, v.Minor)) {
			own, older = v.String(), version.AllVersions[i-1].String()
		}
	}
	cfg := etcdtest.Config(t)
	e := etcdtest.Open(t, cfg)
	if _, err := e.Client().Client.Put(t.Context(), "/registry/a", "1"); err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	eventually := func(what string, condition func() bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, wait.ForeverTestTimeout, true,
			func(context.Context) (bool, error) { return condition(), nil }); err != nil {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
	stored := func(e *etcdserver.Etcd) string {
		status, err := e.Client().Status(context.Background(), e.Endpoint())
		if err != nil {
			t.Fatal(err)
		}
		return status.StorageVersion
	}
	eventually("data in this version's form", func() bool { return stored(e) == own })
	if _, err := client.Downgrade(t.Context(), clientv3.DowngradeEnable, older); err != nil {
		t.Fatal(err)
	}
	eventually("data in the older form", func() bool { return stored(e) == older })
	e.Close()
	e = etcdtest.Open(t, cfg)
	defer e.Close()
	if got := stored(e); got != older {
		t.Errorf("after a restart the data has the form of %s, not %s", got, older)
	}
	if resp, err := e.Client().Client.Get(t.Context(), "/registry/a"); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("after a restart: %v, %v", resp, err)
	}
}
