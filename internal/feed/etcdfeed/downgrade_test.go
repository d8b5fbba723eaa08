package etcdfeed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/millrace/millrace/internal/feed/etcdfeed"
)

// TestEmbeddedDowngrades prepares the data for the etcd one minor version older, through
// the socket, as etcdctl does. The data is then in the older form, also after a restart.
func TestEmbeddedDowngrades(t *testing.T) {
	t.Parallel()
	var own, older string
	for i, v := range version.AllVersions {
		if strings.HasPrefix(version.Version, fmt.Sprintf("%d.%d.", v.Major, v.Minor)) {
			own, older = v.String(), version.AllVersions[i-1].String()
		}
	}
	cfg := dirs(t)
	e := open(t, cfg)
	put(t, e.Client().Client, "/registry/a", "1")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stored := func(e *etcdfeed.EmbeddedEtcd) string {
		status, err := e.Client().Status(context.Background(), e.Endpoint())
		if err != nil {
			t.Fatal(err)
		}
		return status.StorageVersion
	}
	eventually(t, "data in this version's form", func() bool { return stored(e) == own })
	if _, err := client.Downgrade(t.Context(), clientv3.DowngradeEnable, older); err != nil {
		t.Fatal(err)
	}
	eventually(t, "data in the older form", func() bool { return stored(e) == older })
	e.Close()
	e = open(t, cfg)
	defer e.Close()
	if got := stored(e); got != older {
		t.Errorf("after a restart the data has the form of %s, not %s", got, older)
	}
	if resp, err := e.Client().Client.Get(t.Context(), "/registry/a"); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("after a restart: %v, %v", resp, err)
	}
}
