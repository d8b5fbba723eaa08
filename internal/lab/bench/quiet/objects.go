package quiet

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// namespace has the service accounts and config maps. account is the service account whose
	// token all clients use.
	namespace = "default"
	account   = "default"

	namespacesPath = "/api/v1/namespaces"
	accountsPath   = namespacesPath + "/" + namespace + "/serviceaccounts"
	configMapsPath = namespacesPath + "/" + namespace + "/configmaps"
)

// objectName returns the name of object i of each kind.
func objectName(i int) string { return fmt.Sprintf("bench-quiet-%05d", i) }

// createObjects creates the objects that are read and written.
func (b *bench) createObjects(ctx context.Context) error {
	if err := b.writer.CreateAdministrator(ctx, namespace, account); err != nil {
		return err
	}
	for _, objects := range []struct {
		path, kind string
		n          int
	}{{namespacesPath, "Namespace", b.opts.plan.Namespaces}, {accountsPath, "ServiceAccount", b.opts.plan.Accounts},
		{configMapsPath, "ConfigMap", b.opts.plan.ConfigMaps}} {
		b.progress.Phase("creating %d objects of kind %s", objects.n, objects.kind)
		if err := b.writer.Each(ctx, testbed.Turns(objects.n), func(ctx context.Context, c *testbed.Conn, i int) error {
			body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":%q,"metadata":{"name":%q}}`, objects.kind, objectName(i))
			creation := testbed.Change{Method: http.MethodPost, URI: objects.path, ContentType: testbed.AcceptJSON, Body: body}
			return b.writer.Target.Write(ctx, c, creation, http.StatusCreated)
		}); err != nil {
			return err
		}
	}
	return nil
}

// change implements testbed.ChangeFunc, for config maps.
func (b *bench) change(i int, at time.Time) testbed.Change {
	return testbed.Change{
		Method: http.MethodPatch, URI: configMapsPath + "/" + objectName(i%b.opts.plan.ConfigMaps), ContentType: "application/merge-patch+json",
		Body: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, testbed.StampKey, testbed.FormatStamp(at)),
	}
}

// The kinds of reads.
const (
	getNamespace   = "GET one namespace"
	listNamespaces = "LIST all namespaces"
	getAccount     = "GET one service account"
)

// read is a request that clients send.
type read struct{ kind, uri string }

// reads returns the requests of one client, one of each kind.
func reads() []read {
	return []read{{getNamespace, namespacesPath + "/" + objectName(0)}, {listNamespaces, namespacesPath},
		{getAccount, accountsPath + "/" + objectName(0)}}
}
